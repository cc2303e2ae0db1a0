"""What the libraries of a start import and do not use then, left out until it is used.

`asyncio`, `logging`, `pathlib` and `subprocess` bring along modules for TLS, for what goes wrong, for Windows, or to
look at callbacks; `msgspec` takes from `typing_extensions`, where that is installed, what `typing` has since Python
3.11. Together that is a sixth of the time to the first request. What always holds: whoever asks for anything but a
stand-in gets the real module's, and from then on the stand-in is the real thing, too.
"""

import os
import sys
from _thread import allocate_lock
from importlib import import_module
from types import ModuleType

NAMES = (
    *("array", "asyncio.sslproto", "base64", "fcntl", "fnmatch", "inspect", "ipaddress", "locale", "ntpath"),
    *("platform", "ssl", "textwrap", "tokenize", "zlib"),
)

_swapping = allocate_lock()


class _Later(ModuleType):
    def __getattr__(self, name: str) -> object:
        with _swapping:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        # Not under the lock: who imports it in another thread may wait for what this one imports.
        module = import_module(self.__name__)
        self.__dict__.update(module.__dict__)
        return getattr(module, name)


# What is asked of some of them all the same: `uuid` asks for the system, and `asyncio` whether a socket has TLS, which
# none can have before `ssl` is loaded.
_STANDINS: dict[str, dict[str, object]] = {
    "platform": {"system": lambda: os.uname().sysname},
    "ssl": {"SSLSocket": type("SSLSocket", (), {})},
}


def put_off() -> None:
    """To be called before anything of them is imported; what brings them along is loaded now."""
    for name in NAMES:
        if name not in sys.modules:
            later = sys.modules[name] = _Later(name)
            later.__dict__.update(_STANDINS.get(name, {}))
    vars(import_module("asyncio"))["sslproto"] = sys.modules["asyncio.sslproto"]
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # pyright: ignore[reportArgumentType] - which is how it is said
        try:
            import_module("msgspec")
        finally:
            del sys.modules["typing_extensions"]
