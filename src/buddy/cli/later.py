"""What the libraries of a start import and do not use then, left out until it is used.

`asyncio`, `pathlib` and others bring along modules for TLS, for what goes wrong, for Windows, for programs, or to look
at callbacks; `msgspec` has formats that nobody asks for, and takes from `typing_extensions`, where that is installed,
what `typing` has since Python 3.11. Together that is a fifth of the time to the first request. What always holds:
whoever asks for anything but a stand-in gets the real module's, and from then on the stand-in is the real thing, too.
"""

import functools
import os
import sys
from _thread import allocate_lock
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

NAMES = (
    *("array", "asyncio.sslproto", "base64", "datetime", "fcntl", "fnmatch", "hashlib", "importlib.util", "inspect"),
    *("ipaddress", "linecache", "locale", "logging", "msgspec.inspect", "msgspec.msgpack", "msgspec.toml"),
    *("msgspec.yaml", "ntpath", "platform", "ssl", "string", "subprocess", "textwrap", "tokenize", "traceback", "zlib"),
)
PACKAGES = ("logging",)
SHORT = 4096

_swapping = allocate_lock()


class _Later(ModuleType):
    def __getattr__(self, name: str) -> object:
        if name == "__path__" and self.__name__ not in PACKAGES:
            raise AttributeError(name)  # every `from … import` asks for it
        return getattr(self.load(), name)

    def load(self) -> ModuleType:
        with _swapping:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        # Not under the lock: who imports it in another thread may wait for what this one imports.
        module = import_module(self.__name__)
        self.__dict__.update(module.__dict__)
        return module


class _Logged:
    """A logger or a handler that a module makes for itself as it is loaded: real as soon as it is used."""

    def __init__(self, logging: _Later, kind: str, *given: object) -> None:
        self._logging = logging
        self._make = (kind, given)

    @functools.cached_property
    def _real(self) -> "logging.Logger":
        kind, given = self._make
        return getattr(self._logging.load(), kind)(*given)

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def debug(self, message: str, *given: object) -> None:
        if sys.modules["logging"] is not self._logging:  # before, nobody has asked to hear it
            self._real.debug(message, *given)

    def addHandler(self, handler: "logging.Handler") -> None:  # noqa: N802 - the real one's name
        if sys.modules["logging"] is not self._logging:  # before, it is one that writes to stderr, as none does
            self._real.addHandler(handler)


def put_off() -> None:
    """To be called before anything of them is imported; what brings them along is loaded now."""
    for name in NAMES:
        if name not in sys.modules:
            later = sys.modules[name] = _Later(name)
            later.__dict__.update(_standins(later))
    for package, name in (("asyncio", "sslproto"), ("importlib", "util")):
        vars(import_module(package))[name] = sys.modules[f"{package}.{name}"]
    # Types that are only named stay text until somebody evaluates them: `compile` makes, at its first call, all types
    # of Python's syntax trees, some two hundred.
    typing = vars(import_module("typing"))
    typing["compile"] = _unread
    try:
        import_module("tomllib")
        _load_msgspec()
    finally:
        del typing["compile"]


def _unread(source: str, *_: object) -> str:
    return source


def _load_msgspec() -> None:
    if "typing_extensions" in sys.modules:
        return
    sys.modules["typing_extensions"] = None  # pyright: ignore[reportArgumentType] - which is how it is said
    try:
        import_module("msgspec")
    finally:
        del sys.modules["typing_extensions"]


def _standins(later: _Later) -> dict[str, object]:
    """What every start asks of some of them, or what is made as others are loaded."""
    match later.__name__:
        case "datetime":  # which is all there once again, in Python, before Python 3.12
            return {name: value for name, value in vars(import_module("_datetime")).items() if name[0] != "_"}
        case "hashlib":
            sha256 = _sha256(later)
            return {"sha256": sha256} if sha256 else {}
        case "importlib.util":
            return {"find_spec": _forwarded(later, "find_spec")}
        case "logging":
            made = {kind: functools.partial(_Logged, later, kind) for kind in ("StreamHandler", "getLogger")}
            return {"DEBUG": 10, **made}
        case "platform":
            return {"system": lambda: os.uname().sysname}  # `uuid`
        case "ssl":
            return {"SSLSocket": type("SSLSocket", (), {})}  # no socket can be one before `ssl` is loaded
        case "string":  # `tomllib`
            small, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"
            return {"ascii_letters": small + small.upper(), "digits": digits, "hexdigits": f"{digits}abcdefABCDEF"}
        case "subprocess":
            return {"PIPE": -1, "STDOUT": -2, "DEVNULL": -3}
        case "traceback":
            return {"extract_stack": _forwarded(later, "extract_stack")}
        case _:
            return {}


def _forwarded(later: _Later, name: str) -> "Callable[..., object]":
    def forward(*given: object) -> object:
        return getattr(later.load(), name)(*given)

    return forward


def _sha256(hashlib: _Later) -> "Callable[..., object] | None":
    """Of what is short without OpenSSL, which takes longer to load than all that a start has to hash."""
    try:
        plain = import_module("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
    except ImportError:
        return None  # as some systems build Python

    def sha256(data: bytes | None = None, **how: object) -> object:
        return plain(data) if data is not None and len(data) < SHORT else hashlib.load().sha256(data or b"", **how)

    return sha256
