"""What the libraries of a start import and do not use then, left out until it is used.

`asyncio`, `logging`, `pathlib` and `subprocess` bring along modules for what goes wrong, for Windows, or to look at
callbacks; `msgspec` takes from `typing_extensions`, where that is installed, what `typing` has since Python 3.11.
Together that is a tenth of the time to the first request. What always holds: whoever asks for anything in such a module
gets the real one's.
"""

import os
import sys
from _thread import RLock
from importlib import import_module
from types import ModuleType

NAMES = ("inspect", "ipaddress", "locale", "ntpath", "platform", "textwrap", "tokenize")

_loading = RLock()


class _Later(ModuleType):
    def __getattr__(self, name: str) -> object:
        with _loading:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            module = import_module(self.__name__)
            self.__dict__.update(module.__dict__)
        return getattr(module, name)


def put_off() -> None:
    """To be called before anything of them is imported."""
    for name in NAMES:
        later = sys.modules.setdefault(name, _Later(name))
        if name == "platform":
            later.__dict__.setdefault("system", lambda: os.uname().sysname)  # all that `uuid` asks for
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # pyright: ignore[reportArgumentType] - which is how it is said
        try:
            import_module("msgspec")
        finally:
            del sys.modules["typing_extensions"]
