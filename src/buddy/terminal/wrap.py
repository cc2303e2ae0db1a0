"""Text in columns: how wide it is on a terminal, cut or wrapped to a width.

What always holds: what goes in was escaped before and has no styling; wide characters count as two columns.
"""

from collections.abc import Iterator

from prompt_toolkit.utils import get_cwidth


def width_of(text: str) -> int:
    return get_cwidth(text)


def cut(text: str, width: int) -> str:
    """As much as fits, with an ellipsis where that is not all."""
    if width_of(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += max(0, get_cwidth(character))
        if used > width - 1:
            break
        kept += character
    return kept + "…"


def wrap(text: str, width: int) -> Iterator[str]:
    """The lines of a text, none wider than `width`; nothing is left out."""
    for line in text.expandtabs(4).split("\n"):
        yield from _wrap_line(line, max(8, width))


def _wrap_line(line: str, width: int) -> Iterator[str]:
    if width_of(line) <= width:
        yield line
        return
    start, used = 0, 0
    for index, character in enumerate(line):
        size = max(0, get_cwidth(character))
        if used + size > width:
            yield line[start:index]
            start, used = index, 0
        used += size
    yield line[start:]
