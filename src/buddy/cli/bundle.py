"""The modules of a start in one file: to find and read each by itself is a tenth of the time to the first request.

The file lies with the other bytecode of this module: an index, and behind it the code of each module. What always
holds: a module is taken from there only while its own file is what it was when it was put there; else it is imported
as ever, and kept for the next time. Where the file cannot be written, or is damaged, a start is slower, nothing else.
"""

import marshal
import os
import sys

# What `importlib` is made of: every interpreter has loaded it, and `importlib` would bring other modules along.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, ExtensionFileLoader, SourceFileLoader, cache_from_source
from _imp import source_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, ModuleType

    # Where the module is, where its bytecode, and whether it is a package; its file's time and size.
    About = tuple[str, str | None, bool, int, int]
    # And where its code begins in the bundle, and how long that is: a module that is not Python has none.
    Entry = tuple[str, str | None, bool, int, int, int, int]

_LENGTH = 4
_HEAD = len(MAGIC_NUMBER) + _LENGTH
DAMAGED = (EOFError, TypeError, ValueError)


class Bundle:
    """A finder that is asked before folders are searched."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._missed: list[str] = []
        self._entries: dict[str, Entry] = {}
        try:
            self._file = os.open(path, os.O_RDONLY)
            head = os.read(self._file, _HEAD)
            length = int.from_bytes(head[-_LENGTH:], "little")
            self._start = _HEAD + length
            if head.startswith(MAGIC_NUMBER) and len(head) == _HEAD:
                self._entries = marshal.loads(os.read(self._file, length))
        except (OSError, *DAMAGED):
            pass

    def find_spec(
        self, name: str, _path: "Sequence[str] | None" = None, _target: "ModuleType | None" = None
    ) -> ModuleSpec | None:
        entry = self._entries.get(name)
        if entry is None or not _is_current(entry):
            self._missed.append(name)
            return None
        path, cached, is_package, *_, length = entry
        loader = _Kept(name, path, self) if length else ExtensionFileLoader(name, path)
        spec = ModuleSpec(name, loader, origin=path, is_package=is_package)
        spec.has_location, spec.cached = True, cached
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(path.rpartition("/")[0])
        return spec

    def code(self, name: str) -> "CodeType | None":
        try:
            return marshal.loads(self._read(self._entries[name]))
        except DAMAGED:
            self._missed.append(name)
            return None

    def keep(self) -> None:
        """Put in what had to be imported from elsewhere."""
        found = {name: about for name in self._missed if (about := _about(name))}
        if found:
            write(self._path, lambda: self._with(found))

    def _with(self, found: "dict[str, About]") -> bytes:
        codes = {name: code for name in found if (code := _code(name)) is not None}
        abouts = {name: found[name] for name in codes}
        for name, entry in self._entries.items():
            if name not in found and _is_current(entry):
                abouts[name], codes[name] = entry[:5], self._read(entry)
        index: dict[str, Entry] = {}
        at = 0
        for name, code in codes.items():
            index[name] = (*abouts[name], at, len(code))
            at += len(code)
        head = marshal.dumps(index)
        return b"".join((MAGIC_NUMBER, len(head).to_bytes(_LENGTH, "little"), head, *codes.values()))

    def _read(self, entry: "Entry") -> bytes:
        return os.pread(self._file, entry[6], self._start + entry[5])


class _Kept(SourceFileLoader):
    def __init__(self, name: str, path: str, bundle: Bundle) -> None:
        self.name, self.path, self._bundle = name, path, bundle

    def create_module(self, spec: ModuleSpec) -> "ModuleType":
        module = type(sys)(spec.name)
        # What `importlib` looks for before it sets it, each time with an error that nobody sees.
        module.__file__, module.__cached__ = spec.origin, spec.cached
        return module

    def get_code(self, fullname: str) -> "CodeType | None":
        return self._bundle.code(fullname) or super().get_code(fullname)


def use_bundle() -> Bundle:
    bundle = Bundle(place_of(__file__))
    sys.meta_path.insert(0, bundle)
    return bundle


def place_of(module: str) -> str:
    """Where something is kept for a module: with its bytecode; for another Python or environment, somewhere else.

    Nowhere with a search path of somebody's own: there would be a file for each.
    """
    if "PYTHONPATH" in os.environ:
        return ""
    here = repr((sys.version, sys.path[1:], sys.flags.optimize)).encode()
    return cache_from_source(module, optimization=source_hash(0, here).hex())


def write(path: str, make: "Callable[[], bytes]") -> None:
    """At once and whole, or not at all."""
    new = f"{path}.{os.getpid()}"
    try:
        if path and not sys.dont_write_bytecode:
            with open(new, "xb") as file:
                file.write(make())
            os.replace(new, path)
    except (OSError, ValueError):  # no room, no right, or something that cannot be written so
        if os.path.exists(new):
            os.unlink(new)


def _about(name: str) -> "About | None":
    spec: ModuleSpec | None = getattr(sys.modules.get(name), "__spec__", None)
    if spec is None or spec.origin is None or type(spec.loader) not in (SourceFileLoader, ExtensionFileLoader, _Kept):
        return None
    try:
        found = os.stat(spec.origin)
    except OSError:
        return None
    is_package = spec.submodule_search_locations is not None
    return spec.origin, spec.cached, is_package, found.st_mtime_ns, found.st_size


def _code(name: str) -> "bytes | None":
    """None where it cannot be had any more; of a module that is not Python, nothing."""
    loader = sys.modules[name].__loader__
    if not isinstance(loader, SourceFileLoader):
        return b""
    try:
        return marshal.dumps(loader.get_code(name))
    except (OSError, SyntaxError):
        return None


def _is_current(entry: "Entry") -> bool:
    try:
        found = os.stat(entry[0])
    except OSError:
        return False
    return found.st_mtime_ns == entry[3] and found.st_size == entry[4]
