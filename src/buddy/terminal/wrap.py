"""Text in columns: its width on a terminal, and how to cut or wrap it.

Invariants: the text is already escaped and has no styling; wide characters count as two columns.
"""

from collections.abc import Iterator

from prompt_toolkit.utils import get_cwidth


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
