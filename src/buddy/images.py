"""What an image is, from its first bytes: its type, its width and its height.

Invariants: nothing is decoded; only the four types that every model API takes are images here. What is too large is
refused in words that say by how much.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 20 * 1024 * 1024
MAX_SIDE = 8000
"""Pixels."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
MAX_IMAGES = 20
"""Images of one message, or of one result."""

_MARKERS_WITHOUT_SIZE = {0xC4, 0xC8, 0xCC}
_MAX_SEGMENTS = 4096
_MAX_FILL = 16
"""Bytes without a meaning before a marker; more, or more segments, take long to skip and come from no camera."""


class NotAnImage(ValueError):
    """Why a content can't be used as an image; the message continues its name."""


class ImageFacts:
    """The type of an image and its size in pixels and bytes."""

    def __init__(self, media_type: str, width: int, height: int, size: int) -> None:
        self.media_type = media_type
        self.width = width
        self.height = height
        self.size = size


def read_facts(content: bytes) -> ImageFacts:
    """The facts about an image; NotAnImage if it is none, or too large."""
    if len(content) > MAX_BYTES:
        raise NotAnImage(f"has {len(content) / 1024**2:.1f} MiB; an image may have {MAX_BYTES // 1024**2} MiB")
    media_type = media_type_of(content)
    if not media_type:
        raise NotAnImage("is not an image (PNG, JPEG, GIF or WebP)")
    sides = _SIDES[media_type](content)
    if sides is None or 0 in sides:
        raise NotAnImage(f"is a damaged image: its {media_type} header has no width and height")
    width, height = sides
    if max(sides) > MAX_SIDE:
        raise NotAnImage(f"is {width}x{height} pixels; an image may have {MAX_SIDE} a side")
    return ImageFacts(media_type, width, height, len(content))


def media_type_of(content: bytes) -> str:
    """The type by the first bytes; empty if it is not an image."""
    if content.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if content.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if content[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return ""


def _png(content: bytes) -> "tuple[int, int] | None":
    if content[12:16] != b"IHDR" or len(content) < 24:
        return None
    return int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big")


def _gif(content: bytes) -> "tuple[int, int] | None":
    if len(content) < 10:
        return None
    return int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")


def _jpeg(content: bytes) -> "tuple[int, int] | None":
    for marker, start in _segments(content):
        if 0xC0 <= marker <= 0xCF and marker not in _MARKERS_WITHOUT_SIZE and len(content) >= start + 7:
            height, width = content[start + 3 : start + 5], content[start + 5 : start + 7]
            return int.from_bytes(width, "big"), int.from_bytes(height, "big")
    return None


def _segments(content: bytes) -> "Iterator[tuple[int, int]]":
    """The segments of a JPEG before its pixels: each one's marker, and where its length is."""
    at = 2
    for _ in range(_MAX_SEGMENTS):
        fill = content[at : at + _MAX_FILL + 1]
        at += max(0, len(fill) - len(fill.lstrip(b"\xff")) - 1)
        if at + 4 > len(content) or content[at] != 0xFF or content[at + 1] in (0xDA, 0xFF):
            return
        yield content[at + 1], at + 2
        at += 2 + max(2, int.from_bytes(content[at + 2 : at + 4], "big"))


def _webp(content: bytes) -> "tuple[int, int] | None":
    kind = content[12:16]
    if kind == b"VP8X" and len(content) >= 30:
        return 1 + int.from_bytes(content[24:27], "little"), 1 + int.from_bytes(content[27:30], "little")
    if kind == b"VP8L" and len(content) >= 25:
        bits = int.from_bytes(content[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 " and len(content) >= 30:
        return int.from_bytes(content[26:28], "little") & 0x3FFF, int.from_bytes(content[28:30], "little") & 0x3FFF
    return None


_SIDES = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
