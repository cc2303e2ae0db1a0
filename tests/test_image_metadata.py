"""What of an image is passed on: what shows it, and not where it was taken."""

import struct

import pytest

from buddy.image_metadata import MAX_PARTS, without_metadata
from buddy.images import NotAnImage, read_facts
from tests.harness.pictures import POSITION, gif, jpeg, png, png_with_metadata, webp

PIXELS = b"\x11\xff\x00\x22\xff\xd0pixels"


def segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def exif(orientation: int, order: str = ">") -> bytes:
    """The orientation, and a position in a second directory."""
    start = b"MM\0*" if order == ">" else b"II*\0"
    entries = struct.pack(f"{order}HHHIHH", 2, 0x0112, 3, 1, orientation, 0)
    entries += struct.pack(f"{order}HHII", 0x8825, 4, 1, 38)
    return b"Exif\0\0" + start + struct.pack(f"{order}I", 8) + entries + bytes(4) + POSITION


JFIF, ICC = segment(0xE0, b"JFIF\0"), segment(0xE2, b"ICC_PROFILE\0\1\1colours")
FRAME = segment(0xC0, struct.pack(">BHHB", 8, 480, 640, 1))
SCAN = segment(0xDA, b"\1\1\0\0\x3f\0") + PIXELS
SHOWN = b"\xff\xd8" + JFIF + ICC + FRAME + SCAN + segment(0xC4, b"tables") + SCAN + b"\xff\xd9"


def photo(orientation: int = 1, order: str = ">") -> bytes:
    metadata = [
        segment(0xE1, exif(orientation, order)),
        segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + POSITION),
        segment(0xED, b"Photoshop 3.0\0" + POSITION),
        segment(0xE2, b"MPF\0" + POSITION),
    ]
    before, after = SHOWN[:2], SHOWN[2:]
    second = b"\xff\xd8" + segment(0xE1, exif(6)) + b"\xff\xd9"
    return before + b"".join(metadata[:2]) + after[: len(JFIF)] + b"".join(metadata[2:]) + after[len(JFIF) :] + second


def webp_chunk(kind: bytes, content: bytes) -> bytes:
    return kind + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


def webp_of(flags: int, *chunks: bytes) -> bytes:
    body = b"WEBP" + webp_chunk(b"VP8X", bytes([flags, 0, 0, 0]) + b"\x7f\x02\0\xdf\x01\0") + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


FRAME_OF_WEBP = webp_chunk(b"VP8L", b"odd number of pixels,")
WEBP = webp_of(0b11100, FRAME_OF_WEBP, webp_chunk(b"EXIF", POSITION), webp_chunk(b"XMP ", POSITION))


@pytest.mark.parametrize("content", [jpeg(), png(), gif(), webp(), SHOWN, png(filler=99) + b"more", jpeg() + b"more"])
def test_an_image_without_metadata_is_the_same(content: bytes) -> None:
    assert without_metadata(content) is content


def test_a_photo_loses_its_position_and_what_follows_its_end() -> None:
    assert POSITION in photo()
    assert without_metadata(photo()) == SHOWN


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", [2, 6, 8])
def test_a_photo_stays_turned_as_it_was(orientation: int, order: str) -> None:
    found = without_metadata(photo(orientation, order))
    only = b"Exif\0\0MM\0*\0\0\0\x08" + struct.pack(">HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)
    assert found == SHOWN[:2] + segment(0xE1, only) + SHOWN[2:]
    assert without_metadata(found) == found
    assert (read_facts(found).width, read_facts(found).height) == (640, 480)


def test_a_png_loses_its_texts_and_a_webp_its_chunks() -> None:
    assert without_metadata(png_with_metadata(640, 480)) == png(640, 480)
    assert without_metadata(WEBP) == webp_of(0b10000, FRAME_OF_WEBP)


@pytest.mark.parametrize("content", [photo(6), png_with_metadata(640, 480), WEBP], ids=["jpeg", "png", "webp"])
def test_no_damage_breaks_the_reader(content: bytes) -> None:
    """What is still an image has the same size afterwards, and no metadata that was complete."""
    cut = [content[:end] for end in range(len(content))]
    changed = [content[:at] + byte + content[at + 1 :] for at in range(12, len(content)) for byte in (b"\0", b"\xff")]
    for one in (*cut, *changed):
        found = without_metadata(one)
        assert len(found) <= len(one) + 40
        try:
            before = read_facts(one)
        except NotAnImage:
            continue
        after = read_facts(found)
        assert (after.width, after.height) == (before.width, before.height)
    assert not any(POSITION in without_metadata(one) for one in cut)


@pytest.mark.parametrize("part", [b"\xff\xe1\0\2", b"\xff\xff", b"\xff\xda\0\2", b"\xff\xda\0\2\xff\0"])
def test_a_hostile_number_of_segments_is_bounded(part: bytes) -> None:
    content = b"\xff\xd8" + part * (2 * MAX_PARTS) + jpeg()[2:]
    assert len(without_metadata(content)) <= len(content)
