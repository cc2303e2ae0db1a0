"""Keys typed before the prompt appeared.

Invariants: none is lost, and Enter stays Enter: the terminal turns it into a newline until an editor takes over.
"""

import os
import select

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

LINE = 4096
END = "\x04"


def drain(source: Input) -> None:
    """Hand the complete lines waiting in the terminal to the editor; it reads an unfinished one itself."""
    descriptor = source.fileno()
    keys: list[KeyPress] = []
    parser = Vt100Parser(keys.append)
    while select.select([descriptor], [], [], 0)[0]:
        line = os.read(descriptor, LINE).decode(errors="replace")
        parser.feed(line.replace("\n", "\r") or END)
        if not line:
            break
    parser.flush()
    store_typeahead(source, keys)
