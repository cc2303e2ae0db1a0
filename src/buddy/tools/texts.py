"""The description of a tool for the model: the Markdown file next to it."""

from pathlib import Path

_HERE = Path(__file__).parent


def text_of(name: str) -> str:
    return (_HERE / f"{name}.md").read_text(encoding="utf-8").strip()
