"""Text in columns: its width on a terminal, and how to cut or wrap it.

Invariants: the text is already escaped and, except for `fold`, has no styling; wide characters count as two columns.
"""

import re
from collections.abc import Iterator

from prompt_toolkit.utils import get_cwidth

_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")


def width_of(text: str) -> int:
    return get_cwidth(text)


def cut(text: str, width: int) -> str:
    """As much as fits, with an ellipsis if something was cut."""
    if width_of(text) <= width:
        return text
    text_so_far, used = "", 0
    for character in text:
        used += max(0, get_cwidth(character))
        if used > width - 1:
            break
        text_so_far += character
    return text_so_far + "…"


def wrap(text: str, width: int) -> Iterator[str]:
    """The lines of a text, none wider than `width`; every character is kept."""
    for line in text.expandtabs(4).split("\n"):
        yield from _wrap_line(line, max(8, width))


def wrap_words(text: str, width: int) -> Iterator[str]:
    """The same for prose: breaks between words where possible, and drops the space at the break."""
    for line in text.expandtabs(4).split("\n"):
        yield from _wrap_line(line, max(8, width), between=" ")


def _wrap_line(line: str, width: int, between: str = "") -> Iterator[str]:
    if width_of(line) <= width:
        yield line
        return
    start, used, word = 0, 0, 0
    for index, character in enumerate(line):
        size = max(0, get_cwidth(character))
        if used + size > width:
            end = word if word > start and character != between else index
            yield line[start:end].rstrip(between) if between else line[start:end]
            start, used = end, width_of(line[end:index])
        if character == between:
            word = index + 1
            if index == start and start:
                start, size = word, 0
        used += size
    yield line[start:]


def fold(text: str, columns: int, indent: int | None = None) -> str:
    """Break the lines that are too wide between words; what continues one is indented, by two more than it if not said.

    The text may have our own styling, which has no width.
    """
    return "\n".join(_fold_line(line, columns, indent) for line in text.split("\n"))


def _fold_line(line: str, columns: int, indent: int | None) -> str:
    plain = _STYLE.sub("", line)
    if width_of(plain) <= columns:
        return line
    wanted = len(plain) - len(plain.lstrip(" ")) + 2 if indent is None else indent
    room = columns - min(wanted, columns // 2)
    ends = _breaks(plain, columns, room)
    return _break_at(line, ends, "\n" + " " * (columns - room))


def _breaks(plain: str, first: int, room: int) -> dict[int, int]:
    """Where to break a line without styling: the place of each break, and how many spaces it replaces."""
    found: dict[int, int] = {}
    start, left = 0, first
    while (fits := _fitting(plain, start, left)) < len(plain):
        space = plain.rfind(" ", start, fits + 1)
        is_between = space > start and bool(plain[start:space].strip())
        end = space if is_between else max(fits, start + 1)
        found[end] = int(is_between)
        start, left = end + found[end], room
    return found


def _fitting(plain: str, start: int, width: int) -> int:
    """The end of what fits into `width` columns."""
    for at in range(start, len(plain)):
        width -= max(0, get_cwidth(plain[at]))
        if width < 0:
            return at
    return len(plain)


def _break_at(line: str, ends: dict[int, int], joint: str) -> str:
    """Put `joint` into a styled line, at places that are counted without the styling."""
    done, at, skipped = "", 0, 0
    for part in _STYLE.split(line):
        if _STYLE.fullmatch(part):
            done += part
            continue
        for character in part:
            if at in ends:
                done += joint
                skipped = ends[at]
            done += "" if skipped else character
            skipped, at = max(0, skipped - 1), at + 1
    return done
