"""What is an image, by its bytes alone."""

from collections.abc import Callable

import pytest

from buddy.images import MAX_BYTES, NotAnImage, read_facts
from tests.harness.pictures import gif, jpeg, png, webp

MAKERS: dict[str, Callable[[int, int], bytes]] = {"png": png, "jpeg": jpeg, "gif": gif, "webp": webp}
LOSSY = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x05\x00\x04\x00"
LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x04\xc0\x00\x00"


@pytest.mark.parametrize("kind", MAKERS)
def test_type_and_size_are_read_from_the_first_bytes(kind: str) -> None:
    content = MAKERS[kind](640, 480)
    facts = read_facts(content)
    assert (facts.media_type, facts.width, facts.height, facts.size) == (f"image/{kind}", 640, 480, len(content))


def test_a_jpeg_may_have_a_little_padding_before_a_marker() -> None:
    facts = read_facts(jpeg(640, 480)[:2] + b"\xff\xff\xff" + jpeg(640, 480)[2:])
    assert (facts.width, facts.height) == (640, 480)


@pytest.mark.parametrize("content", [LOSSY, LOSSLESS])
def test_the_other_forms_of_webp_are_read_too(content: bytes) -> None:
    facts = read_facts(content)
    assert (facts.media_type, facts.width, facts.height) == ("image/webp", 5, 4)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not an image"),
        (b"hello", "is not an image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not an image"),
        (png(8001, 4), "is 8001x4 pixels; an image may have 8000 a side"),
        (png(100_000, 100_000), "is 100000x100000 pixels"),
        (b"<?xml version='1.0'?><svg/>", "is not an image"),
        (b"\0" + png(), "is not an image"),
        (b"%PDF-1.7\n" + jpeg(), "is not an image"),
        (png(0, 4), "damaged"),
        (png()[:20], "damaged"),
        (jpeg()[:8], "damaged"),
        (jpeg()[:2] + b"\xff" * 1000 + jpeg()[2:], "damaged"),
        (jpeg()[:2] + b"\xff\xfe\0\2" * 5000 + jpeg()[2:], "damaged"),
        (gif()[:7], "damaged"),
        (webp()[:20], "damaged"),
        (png() + bytes(MAX_BYTES), "has 20.0 MiB; an image may have 20 MiB"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_words(content: bytes, problem: str) -> None:
    with pytest.raises(NotAnImage, match=problem):
        read_facts(content)


@pytest.mark.parametrize("kind", MAKERS)
def test_no_beginning_of_an_image_breaks_the_reader(kind: str) -> None:
    content = MAKERS[kind](640, 480)
    for end in range(len(content)):
        try:
            facts = read_facts(content[:end])
        except NotAnImage:
            continue
        assert (facts.width, facts.height) == (640, 480)
