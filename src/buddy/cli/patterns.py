"""The regular expressions of a start, kept compiled: to compile them is a tenth of the time to the first request.

They are kept as the programs that Python makes of them, for this build of Python alone. What always holds: only what
is written in a module of ours or of Python's own is kept, never what was made of somebody's words or secrets; a Python
whose `re` nobody has looked into compiles as ever.
"""

import marshal
import sys
from importlib import import_module

from buddy.cli.bundle import DAMAGED, place_of, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import Self

    # Flags, program, number of groups; numbers by name, and names by number.
    Program = tuple[int, list[int], int, dict[str, int], tuple[str | None, ...]]

_LAZY = "buddy.scrub.lazy"
UNKNOWN = (3, 14)


class Patterns:
    """Stands where `re` compiles, from `with` on."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._re = vars(import_module("re._compiler"))
        self._compile = self._re["compile"]
        self._made = vars(import_module("_sre"))["compile"]
        # By pattern and flags; each by itself, as a start uses some of them.
        self._kept: dict[tuple[str | bytes, int], bytes] = _read(path)
        self._has_more = False

    def __enter__(self) -> "Self":
        if sys.version_info < UNKNOWN:
            self._re["compile"] = self.compile
        return self

    def __exit__(self, *_: object) -> None:
        """Keep what had to be compiled."""
        self._re["compile"] = self._compile
        if self._has_more:
            write(self._path, lambda: marshal.dumps(self._kept))

    def compile(self, pattern: str | bytes, flags: int = 0) -> "re.Pattern[str]":
        program = self._kept.get((pattern, flags))
        if program is None:
            if not _is_written():
                return self._compile(pattern, flags)
            program = self._kept[pattern, flags] = marshal.dumps(self._program(pattern, flags))
            self._has_more = True
        return self._made(pattern, *marshal.loads(program))

    def _program(self, pattern: str | bytes, flags: int) -> "Program":
        """As `re._compiler.compile` makes it."""
        parsed = self._re["_parser"].parse(pattern, flags)
        words = [int(word) for word in self._re["_code"](parsed, flags)]
        numbers: dict[str, int] = dict(parsed.state.groupdict)
        names: list[str | None] = [None] * parsed.state.groups
        for name, number in numbers.items():
            names[number] = name
        return int(flags | parsed.state.flags), words, len(names) - 1, numbers, tuple(names)


def kept_patterns() -> Patterns:
    return Patterns(place_of(__file__))


def _read(path: str) -> "dict[tuple[str | bytes, int], bytes]":
    try:
        with open(path, "rb") as file:
            return marshal.loads(file.read())
    except (OSError, *DAMAGED):
        return {}


def _is_written() -> bool:
    """Whether what is to be compiled stands in a module, as such or as a lazy pattern."""
    frame = sys._getframe(2)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - `inspect` would be loaded for it
    while frame.f_back and frame.f_globals["__name__"] == "re":
        frame = frame.f_back
    name: str = frame.f_globals["__name__"]
    if name == _LAZY:
        lazy = frame.f_locals["self"]
        modules = [module for name, module in sys.modules.items() if name.startswith("buddy.scrub.")]
        return any(lazy is value for module in modules for value in vars(module).values())
    return frame.f_code.co_name == "<module>" and name.partition(".")[0] in {"buddy", *sys.stdlib_module_names}
