"""The console's files, read once: what is not in this table has no address.

Invariants: a request never reaches the file system, so no name can lead out of the folder; a file is compressed once.
"""

import gzip
import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from msgspec import Struct

INDEX = "/"
VIEWS = re.compile(r"/(?:approvals|session/[A-Za-z0-9._:-]{1,128})")
"""Addresses inside the page: it is served for them, and looks at them itself."""
MIN_COMPRESSED = 256
"""Smaller files are sent as they are."""

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}


class StaticFile(Struct, frozen=True):
    content_type: str
    body: bytes
    compressed: bytes | None
    """None if it is no smaller."""
    digest: str

    @property
    def etags(self) -> tuple[str, str]:
        """Of the body and of the compressed one: a strong tag names the bytes that were sent."""
        return f'"{self.digest}"', f'"{self.digest}-gzip"'


def load_console() -> dict[str, StaticFile]:
    """The files by path; the page has a second name, `/`."""
    table = {f"/{name}": file for name, file in _load(files("buddy").joinpath("console"), "")}
    return {**table, INDEX: table["/index.html"]}


def file_of(path: str) -> str:
    """The path of the file that is served for an address."""
    return INDEX if VIEWS.fullmatch(path) else path


def _load(folder: Traversable, prefix: str) -> Iterator[tuple[str, StaticFile]]:
    for entry in folder.iterdir():
        suffix = entry.name[entry.name.rfind(".") :]
        if entry.is_dir():
            yield from _load(entry, f"{prefix}{entry.name}/")
        elif suffix in _TYPES:
            yield prefix + entry.name, make_static(entry.read_bytes(), _TYPES[suffix])


def make_static(body: bytes, content_type: str) -> StaticFile:
    compressed = gzip.compress(body, mtime=0) if len(body) >= MIN_COMPRESSED else body
    is_smaller = len(compressed) < len(body)
    digest = hashlib.sha256(body).hexdigest()[:32]
    return StaticFile(content_type, body, compressed if is_smaller else None, digest)
