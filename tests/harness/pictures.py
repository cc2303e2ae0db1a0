"""Small images of every type, made here."""

import struct
import zlib

POSITION = b"52.5163N 13.3777E"


def png(width: int = 3, height: int = 2, *, filler: int = 0) -> bytes:
    """A valid PNG of this size; `filler` adds bytes that are no pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(min(height, 64))))
    chunks = [_chunk(b"IHDR", header), _chunk(b"IDAT", pixels)]
    if filler:
        chunks.append(_chunk(b"teXt", bytes(filler)))
    return b"\x89PNG\r\n\x1a\n" + b"".join([*chunks, _chunk(b"IEND", b"")])


def png_with_metadata(width: int = 3, height: int = 2) -> bytes:
    """The same PNG, with the place where it was taken in every chunk that can name it."""
    found = b"".join(_chunk(kind, POSITION) for kind in (b"eXIf", b"tEXt", b"zTXt", b"iTXt", b"tIME"))
    plain = png(width, height)
    return plain[:33] + found + plain[33:]


def jpeg(width: int = 3, height: int = 2) -> bytes:
    size = struct.pack(">BHH", 8, height, width)
    comment = b"\xff\xfe" + struct.pack(">H", 6) + b"made"
    return b"\xff\xd8" + comment + b"\xff\xc0" + struct.pack(">H", 8) + size + b"\x01" + b"\xff\xda\0\0\xff\xd9"


def gif(width: int = 3, height: int = 2) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(width: int = 3, height: int = 2) -> bytes:
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + b"\0\0\0\0" + sides
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
