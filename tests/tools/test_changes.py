"""Diffs of files of any size: what they show, and how much work and memory they take."""

import random
import tracemalloc

import pytest

from buddy.tools import changes, read_file
from buddy.tools.changes import LIMIT, MAX_COMPARED, diff

MEGABYTE = 1024 * 1024


def applied(before: bytes, patch: str) -> bytes:
    """What a patch makes of a text; only for lines that end in a newline."""
    old, new, at = before.decode().splitlines(keepends=True), list[str](), 0
    for line in patch.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            span = line.split(" ")[1][1:].split(",")
            first = int(span[0]) - (0 if span[1:] == ["0"] else 1)
            new += old[at:first]
            at = first
        elif line.startswith("+"):
            new.append(line[1:])
        else:
            assert old[at] == line[1:]
            at += 1
            new += [line[1:]] if line.startswith(" ") else []
    return "".join([*new, *old[at:]]).encode()


def test_a_patch_makes_the_new_content_of_the_old() -> None:
    dice = random.Random(7)  # noqa: S311 - repeatable
    for _ in range(300):
        old = [f"{dice.randrange(6)}\n" for _ in range(dice.randrange(30))]
        new = list(old)
        for _ in range(dice.randrange(4)):
            at = dice.randrange(len(new) + 1)
            new[at : at + dice.randrange(3)] = [f"{dice.randrange(6)}\n" for _ in range(dice.randrange(3))]
        before, after = "".join(old).encode(), "".join(new).encode()
        if before != after:
            assert applied(before, diff("f", before, after)) == after


def test_one_line_in_a_huge_file_is_shown_as_one_line() -> None:
    before = b"x\n" * (4 * MEGABYTE)
    after = before[: 5 * MEGABYTE] + b"y\n" + before[5 * MEGABYTE + 2 :]
    shown = diff("f", before, after)
    assert len(shown) < 200
    assert "\n+y\n" in shown
    assert shown.count("\n-") == 1
    assert f"@@ -{5 * MEGABYTE // 2 - 2}," in shown


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, b"x\n" * (4 * MEGABYTE)),
        (b"a\n" * (4 * MEGABYTE), b"b\n" * (4 * MEGABYTE)),
        (b"", b"x" * (8 * MEGABYTE)),
        (b"ab" * (4 * MEGABYTE), b"\n" * (8 * MEGABYTE)),
    ],
)
def test_a_huge_change_takes_little_memory_and_says_that_it_is_cut(
    before: bytes | None, after: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    split: list[int] = []
    lines = changes._lines  # pyright: ignore[reportPrivateUsage] - counts what is split into lines

    def count(content: bytes) -> list[str]:
        split.append(len(content))
        return lines(content)

    monkeypatch.setattr(changes, "_lines", count)
    tracemalloc.start()
    shown = diff("f", before, after)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(shown) <= LIMIT
    assert "the diff is cut here" in shown
    assert sum(split) <= MAX_COMPARED
    assert peak < 2 * (len(before or b"") + len(after)) + 20 * MEGABYTE


def test_reading_a_file_of_short_lines_does_not_list_them_all() -> None:
    content = b"a\n" * (5 * MEGABYTE)
    tracemalloc.start()
    arguments = read_file.ReadFileArgs("f", offset=4 * MEGABYTE, limit=3)
    text = read_file._part(content, arguments, is_complete=True)  # pyright: ignore[reportPrivateUsage] - the pure part
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    first, last = 4 * MEGABYTE, 4 * MEGABYTE + 2
    assert text == f"a\na\na\n[lines {first} to {last} of {5 * MEGABYTE}; read on with offset={last + 1}]"
    assert peak < 4 * MEGABYTE


@pytest.mark.parametrize("content", [b"a\nb\nc\n", b"a\nb\nc", b"\n", b"a", b"\n\n\nx", b"a\n\n"])
@pytest.mark.parametrize("offset", [1, 2, 3])
@pytest.mark.parametrize("limit", [1, 2, 2000])
def test_lines_are_those_of_a_split(content: bytes, offset: int, limit: int) -> None:
    lines = content.decode().removesuffix("\n").split("\n")
    if offset > len(lines):
        return
    arguments = read_file.ReadFileArgs("f", offset=offset, limit=limit)
    text = read_file._part(content, arguments, is_complete=True)  # pyright: ignore[reportPrivateUsage] - the pure part
    expected = "\n".join(lines[offset - 1 : offset - 1 + limit])
    assert text == expected or text.startswith(f"{expected}\n[lines {offset} to ")
