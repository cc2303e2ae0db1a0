"""What was typed before there was a prompt.

What always holds: nothing of it is lost, and Enter is Enter; the terminal makes a newline of it until an editor has it.
"""

import os
import select

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress

LINE = 4096
END = "\x04"


def take_typed(source: Input) -> None:
    """Have the editor begin with the lines that wait in the terminal; one that is not finished it reads itself."""
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
