"""Markdown as it streams in: a block is rendered once, when it is whole.

What always holds: the text is escaped before it is read as markdown, so nothing in it can style or steer the terminal;
nothing is fetched and no hidden link is made: addresses are shown; raw HTML is text.
"""

import re
from collections.abc import Callable, Iterator

from buddy.terminal.escape import escape
from buddy.terminal.style import Style

CHUNK = 40
WIDEST = 100

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$")


class Fence:
    """An open code block: what closes it, its language, its lines so far."""

    def __init__(self, indent: str, mark: str, language: str) -> None:
        self.indent = indent
        self.mark = mark
        self.language = language
        self.lines: list[str] = []

    def closes(self, line: str) -> bool:
        found = line.strip()
        return len(found) >= len(self.mark) and set(found) == {self.mark[0]}

    def take(self, line: str) -> None:
        self.lines.append(line.removeprefix(self.indent))


class Markdown:
    """Fed with pieces, it gives the blocks that became whole."""

    def __init__(self, style: Style, columns: Callable[[], int]) -> None:
        self._style = style
        self._columns = columns
        self._line = ""
        self._lines: list[str] = []
        self._fence: Fence | None = None

    @property
    def pending(self) -> str:
        """What is not rendered yet, as it came."""
        lines = self._fence.lines if self._fence else self._lines
        return "\n".join([*lines, self._line]) if self._line else "\n".join(lines)

    def feed(self, text: str) -> list[str]:
        *whole, self._line = (self._line + text).split("\n")
        return [block for line in whole for block in self._take(escape(line))]

    def finish(self) -> list[str]:
        """The rest, as if it were whole."""
        last, self._line = escape(self._line), ""
        blocks = list(self._take(last)) if last else []
        if self._fence is not None:
            blocks += self._close_fence()
        return [*blocks, *self._paragraph()]

    def reset(self) -> None:
        self._line, self._lines, self._fence = "", [], None

    def _take(self, line: str) -> Iterator[str]:
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
        else:
            yield from self._paragraph()

    def _in_fence(self, fence: Fence, line: str) -> Iterator[str]:
        if fence.closes(line):
            yield from self._close_fence()
            return
        fence.take(line)
        if len(fence.lines) >= CHUNK:
            # A long block is shown in parts, so that what waits stays small.
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
        text, self._lines = "\n".join(self._lines), []
        return [render_markdown(text, self._style, min(WIDEST, self._columns()))]


def render_markdown(text: str, style: Style, columns: int) -> str:
    """Escaped markdown as styled lines."""
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown as RichMarkdown

    shown = RichMarkdown("", hyperlinks=False, code_theme=THEME)
    shown.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
    return _rendered(shown, style, columns)


def render_code(code: str, language: str, style: Style) -> str:
    """Escaped code, highlighted, two columns in; the terminal wraps it, so that it can be copied whole."""
    if style.on and language:
        from rich.syntax import Syntax

        text = Syntax("", language, theme=THEME, background_color="default").highlight(code)
        text.no_wrap = True
        code = _rendered(text, style, 10_000)
    return "\n".join(f"  {line}" for line in code.rstrip("\n").split("\n"))


THEME = "ansi_dark"


def _rendered(shown: object, style: Style, columns: int) -> str:
    import io

    from rich.console import Console
    from rich.theme import Theme

    into = io.StringIO()
    console = Console(
        file=into,
        width=columns,
        force_terminal=style.on,
        color_system="standard" if style.on else None,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
        theme=Theme({"markdown.code": "cyan", "markdown.code_block": "none"}),
    )
    console.print(shown, end="")
    lines = [_TRAILING.sub(r"\1", line) for line in into.getvalue().split("\n")]
    return "\n".join(lines).strip("\n")


# Padding to the full width would wrap when the window gets narrower.
_TRAILING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$")
