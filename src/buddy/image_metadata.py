"""Removes from an image what is not needed to show it: where, when and with what it was taken, and by whom.

Invariants: pixels and colours stay byte for byte, and so does how a photo is turned; an image without metadata is the
same as before. What follows a damaged part stays as it is. GIF has no positions and is not touched.
"""

import re
from collections.abc import Iterator
from typing import Literal

from buddy.images import media_type_of

MAX_PARTS = 100_000
"""Of one image; more come from no camera."""

_SHOWN = (0xE0, 0xEE)
"""Segments of applications that say how to show a JPEG: JFIF and Adobe. The others are metadata, but for colours."""
_COLOURS = b"ICC_PROFILE\0"
_SCAN, _END, _EXIF = 0xDA, 0xD9, 0xE1
_AFTER_SCAN = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
_PNG_METADATA = {b"eXIf", b"tEXt", b"zTXt", b"iTXt", b"tIME"}
_WEBP_METADATA = {b"EXIF", b"XMP "}
_WEBP_FLAGS = 0b1100
_ORIENTATION = 0x0112


def without_metadata(content: bytes) -> bytes:
    match media_type_of(content):
        case "image/jpeg":
            return _jpeg(content)
        case "image/png":
            chunks = _chunks(content, 8, "big", name_at=4, around=12)
            dropped = [(start, end) for kind, start, end in chunks if kind in _PNG_METADATA]
            return b"".join(_kept(content, dropped)) if dropped else content
        case "image/webp":
            return _webp(content)
        case _:
            return content


def _jpeg(content: bytes) -> bytes:
    dropped: list[tuple[int, int]] = []
    turned, ends = b"", len(content)
    for marker, start, end in _segments(content):
        body = content[start + 4 : end]
        if 0xE0 <= marker <= 0xEF and marker not in _SHOWN and not body.startswith(_COLOURS):
            dropped.append((start, end))
            turned = turned or (_orientation(body[6:]) if marker == _EXIF and body.startswith(b"Exif\0\0") else b"")
        ends = end if marker == _END else ends
    if not dropped:
        return content
    # Behind its end, a photo may have more of them, with metadata of their own.
    start, *rest = _kept(content[:ends], dropped)
    return b"".join((start[:2], turned, start[2:], *rest))


def _segments(content: bytes) -> Iterator[tuple[int, int, int]]:
    """The marker of each segment and where it is; a scan goes with its pixels."""
    at = 2
    for _ in range(MAX_PARTS):
        if at + 1 >= len(content) or content[at] != 0xFF:
            return
        marker, end = content[at + 1], at + 2 + max(2, int.from_bytes(content[at + 2 : at + 4], "big"))
        if marker in (_END, 0xFF):  # the end has no length, and 0xFF before a marker means nothing
            end = at + 2 if marker == _END else at + 1
        elif marker == _SCAN:
            found = _AFTER_SCAN.search(content, end)
            end = found.start() if found else len(content)
        yield marker, at, end
        if marker == _END:
            return
        at = end


def _orientation(tiff: bytes) -> bytes:
    """A segment that only says how the camera was turned; empty if it was not."""
    order = "little" if tiff.startswith(b"II") else "big"
    first = int.from_bytes(tiff[4:8], order)
    for at in range(first + 2, min(first + 2 + 12 * int.from_bytes(tiff[first : first + 2], order), len(tiff)), 12):
        value = int.from_bytes(tiff[at + 8 : at + 10], order)
        if int.from_bytes(tiff[at : at + 2], order) == _ORIENTATION and 2 <= value <= 8:
            body = b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0%c\0\0\0\0\0\0" % value
            return b"\xff\xe1" + (2 + len(body)).to_bytes(2, "big") + body
    return b""


def _webp(content: bytes) -> bytes:
    chunks = _chunks(content, 12, "little", name_at=0, around=8)
    dropped = [(start, end) for kind, start, end in chunks if kind in _WEBP_METADATA]
    if not dropped:
        return content
    body = bytearray(b"".join(_kept(content, dropped)))
    body[4:8] = (len(body) - 8).to_bytes(4, "little")
    if body.startswith(b"VP8X", 12) and len(body) > 20:
        body[20] &= ~_WEBP_FLAGS
    return bytes(body)


def _chunks(
    content: bytes, at: int, order: Literal["big", "little"], *, name_at: int, around: int
) -> Iterator[tuple[bytes, int, int]]:
    """The name of each chunk and where it is; `around` is what it has besides its data, with its length and name."""
    for _ in range(MAX_PARTS):
        if at + 8 > len(content):
            return
        size = int.from_bytes(content[at + 4 - name_at : at + 8 - name_at], order)
        end = at + around + size + (size % 2 if order == "little" else 0)
        yield content[at + name_at : at + name_at + 4], at, end
        at = end


def _kept(content: bytes, dropped: list[tuple[int, int]]) -> Iterator[bytes]:
    at = 0
    for start, end in dropped:
        yield content[at:start]
        at = end
    yield content[at:]
