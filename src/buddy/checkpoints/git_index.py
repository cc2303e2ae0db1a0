"""Reads the index of a git repository: which object holds the content of a tracked file, and when that was true.

Invariants: nothing is run and nothing is written; an index that cannot be understood is an empty one, then every file
is read instead; an entry that git itself would not trust, because the file changed in the same moment, is left out.
"""

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from buddy.git import Repository
from buddy.regular_files import read_regular

LARGEST = 256 * 1024 * 1024
_FIXED = struct.Struct(">10L20sH")
_NOT_PLAIN = 0x8000 | 0x3000  # assumed unchanged, or a side of a conflict
_EXTENDED = 0x4000
_WORD = 0xFFFFFFFF


class IndexEntry(Struct, frozen=True, gc=False):
    """An object and the times of the file whose content it had."""

    object_id: bytes
    changed: int
    modified: int
    inode: int
    size: int
    is_executable: bool

    def has_stat(self, info: os.stat_result) -> bool:
        return (
            self.modified == info.st_mtime_ns
            and self.changed == info.st_ctime_ns
            and self.size == info.st_size & _WORD
            and self.inode == info.st_ino & _WORD
            and self.is_executable == bool(info.st_mode & 0o100)
        )


def read_index(repository: Repository, below: str) -> dict[str, IndexEntry]:
    """The tracked regular files below a folder, by their path relative to it."""
    prefix = os.path.relpath(below, repository.work_tree)
    start = b"" if prefix == "." else os.fsencode(prefix) + b"/"
    path = repository.directory / "index"
    try:
        written = path.stat().st_mtime_ns
        data = read_regular(str(path), LARGEST)
        entries = _entries(data) if _is_plain(repository, data) else iter(())
        return {
            os.fsdecode(name[len(start) :]): entry
            for name, entry in entries
            if name.startswith(start) and entry.modified < written
        }
    except (OSError, struct.error, ValueError, IndexError):
        return {}


def rewrites_content(repository: Repository, index: dict[str, IndexEntry]) -> bool:
    """Whether a file may differ from its object: line endings, filters, keywords."""
    if any(name == ".gitattributes" or name.endswith("/.gitattributes") for name in index):
        return True
    home = Path(os.environ.get("HOME", "/nonexistent"))
    settings = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    configs = (repository.common / "config", home / ".gitconfig", settings / "git" / "config", Path("/etc/gitconfig"))
    places = (repository.common / "info" / "attributes", settings / "git" / "attributes", Path("/etc/gitattributes"))
    above = [folder / ".gitattributes" for folder in (repository.work_tree, *repository.work_tree.parents[:1])]
    if any(place.exists() for place in (*places, *above)):
        return True
    words = ("autocrlf", "attributesfile", "eol", "[include")
    return any(word in _text(config).lower() for config in configs for word in words)


def _text(path: Path) -> str:
    try:
        return read_regular(str(path), 1 << 20, follow=True).decode(errors="replace")
    except OSError:
        return ""


def _is_plain(repository: Repository, data: bytes) -> bool:
    """Not split over several files, and with ids of 20 bytes."""
    return data[:4] == b"DIRC" and b"link" not in data[-4096:] and "objectformat" not in _config(repository)


def _config(repository: Repository) -> str:
    return _text(repository.common / "config").lower()


def _entries(data: bytes) -> Iterator[tuple[bytes, IndexEntry]]:
    version, count = struct.unpack_from(">LL", data, 4)
    if version not in (2, 3, 4):
        return
    at, name = 12, b""
    for _ in range(count):
        fields = _FIXED.unpack_from(data, at)
        flags, begin = fields[11], at
        at += _FIXED.size + (2 if flags & _EXTENDED else 0)
        if version == 4:
            removed, at = _varint(data, at)
            end = data.index(b"\0", at)
            name = name[: len(name) - removed] + data[at:end]
            at = end + 1
        else:
            end = data.index(b"\0", at)
            name = data[at:end]
            at = begin + ((end - begin + 8) & ~7)
        mode = fields[6]
        if flags & (_NOT_PLAIN | _EXTENDED) or mode >> 12 != 0o10:
            continue
        changed, modified = fields[0] * 1_000_000_000 + fields[1], fields[2] * 1_000_000_000 + fields[3]
        yield name, IndexEntry(fields[10], changed, modified, fields[5], fields[9], bool(mode & 0o100))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = data[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1
