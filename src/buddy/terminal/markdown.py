"""Markdown as it streams in: a block is rendered once, when it is complete.

Invariants: the text is escaped before it is parsed as markdown, so nothing in it can style or control the terminal;
nothing is fetched, and links show their address; raw HTML is shown as text.
"""

import re
from collections.abc import Callable, Iterator

from buddy.terminal.escape import escape
from buddy.terminal.style import Style

CHUNK = 40
LONGEST_LINE = 16 * 1024
LONGEST_BLOCK = 64 * 1024
"""Characters: what has no end is shown in parts."""
MAX_WIDTH = 100

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")


class Fence:
    """An open code block: its closing mark, its language, its lines so far."""

    def __init__(self, indent: str, mark: str, language: str) -> None:
        self.indent = indent
        self.mark = mark
        self.language = language
        self.lines: list[str] = []

    def closes(self, line: str) -> bool:
        found = line.strip()
        return len(found) >= len(self.mark) and set(found) == {self.mark[0]}

    def add(self, line: str) -> None:
        self.lines.append(line.removeprefix(self.indent))


class Markdown:
    """Takes pieces of text and returns the blocks they complete."""

    def __init__(self, style: Style, columns: Callable[[], int]) -> None:
        self._style = style
        self._columns = columns
        self._line = ""
        self._lines: list[str] = []
        self._size = 0
        self._fence: Fence | None = None

    @property
    def pending(self) -> str:
        """The text not rendered yet, as received."""
        lines = self._fence.lines if self._fence else self._lines
        return "\n".join([*lines, self._line]) if self._line else "\n".join(lines)

    def feed(self, text: str) -> list[str]:
        *complete, self._line = (self._line + text).split("\n")
        if len(self._line) > LONGEST_LINE:
            complete.append(self._line)
            self._line = ""
        return [block for line in complete for block in self._parse(escape(line))]

    def finish(self) -> list[str]:
        """The rest, as if it were complete."""
        last, self._line = escape(self._line), ""
        blocks = list(self._parse(last)) if last else []
        if self._fence is not None:
            blocks += self._close_fence()
        return [*blocks, *self._paragraph()]

    def reset(self) -> None:
        self._line, self._lines, self._size, self._fence = "", [], 0, None

    def _parse(self, line: str) -> Iterator[str]:
        if self._fence is not None:
            yield from self._in_fence(self._fence, line)
        elif found := _FENCE.match(line):
            yield from self._paragraph()
            self._fence = Fence(found[1], found[2], found[3])
        elif found := _HEADING.match(line):
            yield from self._paragraph()
            yield self._style.bold(self._style.cyan(f"{found[1]} {found[2]}"))
        elif line.strip():
            self._lines.append(line)
            self._size += len(line) + 1
            if self._size > LONGEST_BLOCK:
                yield from self._paragraph()
        else:
            yield from self._paragraph()

    def _in_fence(self, fence: Fence, line: str) -> Iterator[str]:
        if fence.closes(line):
            yield from self._close_fence()
            return
        fence.add(line)
        if len(fence.lines) >= CHUNK:
            # A long block is shown in parts, so that the pending text stays small.
            yield render_code("\n".join(fence.lines), fence.language, self._style)
            fence.lines.clear()

    def _close_fence(self) -> list[str]:
        fence, self._fence = self._fence, None
        if fence is None or not fence.lines:
            return []
        return [render_code("\n".join(fence.lines), fence.language, self._style)]

    def _paragraph(self) -> list[str]:
        if not self._lines:
            return []
        text, self._lines, self._size = "\n".join(self._lines), [], 0
        return [render_markdown(text, self._style, min(MAX_WIDTH, self._columns()))]


def load_renderer() -> None:
    """Import the rendering libraries, which are too slow to load before the prompt, and warm them up."""
    style = Style(on=True)
    render_markdown("`a`", style, 80)
    render_code("a", "python", style)


def render_markdown(text: str, style: Style, columns: int) -> str:
    from buddy.terminal import rich_text

    return rich_text.render_markdown(text, style, columns)


def render_code(code: str, language: str, style: Style) -> str:
    """Escaped code, highlighted and indented; the terminal wraps it, so that it copies without line breaks."""
    if style.on and language:
        from buddy.terminal import rich_text

        code = rich_text.highlight(code, language, style)
    return "\n".join(f"  {line}" for line in code.rstrip("\n").split("\n"))
