"""The table in `docs/performance.md`: the part between its two markers is generated here."""

import os
import platform
from collections.abc import Sequence

from bench.setup import ROOT

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def write(lines: Sequence[str], command: str) -> None:
    """Put a new table in place of the old one, under the command that made it."""
    PAGE.write_text(put(PAGE.read_text(), [f"`{command}` on {_machine()}:", "", *lines]))


def put(page: str, lines: Sequence[str]) -> str:
    """The page with these lines between its markers."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return "\n".join([f"{before}{BEGIN}", "", *lines, "", f"{END}{after}"])


def _machine() -> str:
    return f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, Python {platform.python_version()}"
