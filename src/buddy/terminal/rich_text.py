"""Markdown and code rendered with rich. Slow to import, so `markdown` imports it with the first block."""

import io
import re

from markdown_it import MarkdownIt
from rich.console import Console
from rich.markdown import Markdown
from rich.syntax import Syntax
from rich.theme import Theme

from buddy.terminal.style import Style

CODE_THEME = "ansi_dark"
UNWRAPPED = 10_000
# Padding to the full width would wrap once the window gets narrower.
_PADDING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)$")


def render_markdown(text: str, style: Style, columns: int) -> str:
    """Escaped markdown as styled lines."""
    document = Markdown("", hyperlinks=False, code_theme=CODE_THEME)
    document.parsed = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"]).parse(text)
    return _print_to_text(document, style, columns)


def highlight(code: str, language: str, style: Style) -> str:
    text = Syntax("", language, theme=CODE_THEME, background_color="default").highlight(code)
    text.no_wrap = True
    return _print_to_text(text, style, UNWRAPPED)


def _print_to_text(renderable: object, style: Style, columns: int) -> str:
    output = io.StringIO()
    console = Console(
        file=output,
        width=columns,
        force_terminal=style.on,
        color_system="standard" if style.on else None,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
        theme=Theme({"markdown.code": "cyan", "markdown.code_block": "none"}),
    )
    console.print(renderable, end="")
    lines = [_PADDING.sub(r"\1", line) for line in output.getvalue().split("\n")]
    return "\n".join(lines).strip("\n")
