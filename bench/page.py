"""The tables in `docs/performance.md`: the part between two markers of each is generated here."""

import os
import platform
from collections.abc import Sequence

from bench.setup import ROOT

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def write(lines: Sequence[str], command: str, name: str = "table") -> None:
    """Put a new table in place of the old one of this name, under the command that made it."""
    PAGE.write_text(put(PAGE.read_text(), [f"`{command}` on {_machine()}:", "", *lines], name))


def put(page: str, lines: Sequence[str], name: str = "table") -> str:
    """The page with these lines between the markers of this name."""
    begin, end = (marker.replace("table", name) for marker in (BEGIN, END))
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return "\n".join([f"{before}{begin}", "", *lines, "", f"{end}{after}"])


def _machine() -> str:
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"
