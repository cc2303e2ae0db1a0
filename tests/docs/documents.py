"""The documents, and what tests look at in them: fenced blocks, headings, links."""

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

_FENCE = re.compile(r"^```(.*)$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


class Block(Struct, frozen=True):
    """A fenced block; `kind` is what follows the fence, such as `sh run`."""

    document: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


def blocks_of(document: Path) -> Iterator[Block]:
    start, kind, lines = 0, "", list[str]()
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and not start:
            start, kind, lines = number, fence[1].strip(), []
        elif fence:
            yield Block(document, start, kind, "\n".join(lines) + "\n")
            start = 0
        elif start:
            lines.append(line)


def prose_of(document: Path) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def links_of(document: Path) -> list[str]:
    return _LINK.findall(prose_of(document))


def anchors_of(document: Path) -> list[str]:
    """The anchors of its headings, as GitHub spells them."""
    titles = re.findall(r"^#+ (.+)$", prose_of(document), flags=re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles]
