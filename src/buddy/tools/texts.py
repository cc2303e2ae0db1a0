"""What the model is told about a tool: the Markdown file beside it."""

from importlib import resources


def text_of(name: str) -> str:
    return resources.files("buddy.tools").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()
