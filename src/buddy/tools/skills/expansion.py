"""What a slash command or a skill becomes when a person sends it: its text with arguments, files and commands.

Invariants: the template is read once, and what is put into it is never read again; arguments inside a shell command are
quoted word by word; commands are only named here: they run as calls of the run, after a decision like any other.
"""

import re
import shlex
from collections.abc import Callable

from msgspec import Struct

from buddy.errors import ToolError
from buddy.tools.contract import Place

MAX_FILE = 64 * 1024
MAX_FILES = 20
MAX_INSERTIONS = 20
MAX_TEXT = 256 * 1024
_TOKEN = re.compile(
    r"!`(?P<command>[^`\n]+)`"
    r"|\$(?P<all>ARGUMENTS)\b"
    r"|\$(?P<number>[1-9])(?!\d)"
    r"|(?<![\w`/.@])@(?P<file>[\w./~-]*[\w/])"
)
_IN_COMMAND = re.compile(r"\$(?:(?P<all>ARGUMENTS)\b|(?P<number>[1-9])(?!\d))")


class Expansion(Struct, frozen=True):
    """The text for the model; `commands` are to be run, and their output follows the text in this order."""

    text: str
    commands: tuple[str, ...] = ()


async def expand(template: str, arguments: str, place: Place, *, runs_commands: bool) -> Expansion:
    """Fill a template. Without `runs_commands`, its commands are named in the text and not run."""
    filler = _Filler(arguments, runs_commands=runs_commands)
    text = _TOKEN.sub(filler.fill, template)
    if arguments and not filler.has_arguments:
        text = f"{text}\n\nArguments: {arguments}"
    files = [await _read(name, place) for name in list(dict.fromkeys(filler.files))[:MAX_FILES]]
    text = "\n\n".join(part for part in (text, *files) if part)
    return Expansion(text[:MAX_TEXT], tuple(filler.commands))


class _Filler:
    def __init__(self, arguments: str, *, runs_commands: bool) -> None:
        self.commands: list[str] = []
        self.files: list[str] = []
        self.has_arguments = False
        self._arguments = arguments
        self._words = _split(arguments)
        self._runs_commands = runs_commands

    def fill(self, found: re.Match[str]) -> str:
        if found["file"] is not None:
            self.files.append(found["file"])
            return found[0]
        if found["command"] is not None:
            return self._command(found["command"])
        return self._argument(found, lambda text: text)

    def _command(self, template: str) -> str:
        command = _IN_COMMAND.sub(lambda found: self._argument(found, _quote), template).strip()
        if not self._runs_commands or len(self.commands) >= MAX_INSERTIONS:
            return f"[not run: {command}]"
        self.commands.append(command)
        return f"[output {len(self.commands)}]"

    def _argument(self, found: re.Match[str], quote: Callable[[str], str]) -> str:
        self.has_arguments = True
        if found["all"]:
            return quote(self._arguments)
        number = int(found["number"])
        return quote(self._words[number - 1]) if number <= len(self._words) else ""


def _quote(text: str) -> str:
    return " ".join(map(shlex.quote, _split(text)))


def _split(arguments: str) -> list[str]:
    try:
        return shlex.split(arguments)
    except ValueError:
        return arguments.split()


async def _read(name: str, place: Place) -> str:
    """A file of the workspace; empty if there is none of this name, so that `@someone` stays what it is."""
    try:
        path = await place.target.locate(name, root=place.root)
        if place.is_closed(path):
            return f"[{name} is not shown: a rule denies reading it]"
        content = await place.target.read_file(name, root=place.root, limit=MAX_FILE + 1)
    except ToolError:
        return ""
    if b"\0" in content[:8192]:
        return f"[{name} is a binary file; its content is not shown]"
    text = content[:MAX_FILE].decode("utf-8", "replace").replace("</file", "<\\/file")  # it cannot end its block
    more = "\n[cut; read the rest with read_file]" if len(content) > MAX_FILE else ""
    return f'<file path="{name}">\n{text}{more}\n</file>'
