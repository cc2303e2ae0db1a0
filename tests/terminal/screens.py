"""Makes the pictures of `docs/terminal.md`: the real program in a real terminal, captured and drawn as SVG.

`python -m tests.terminal.screens` writes `docs/images/*.svg`. Paths and ids in them are invented or shortened.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.harness.home import Home
from tests.harness.scripts import Reply, shell
from tests.harness.terminal import Tmux

ROOT = Path(__file__).parents[2]
COLUMNS, ROWS = 104, 28
IMAGES = ROOT / "docs" / "images"

EDIT: Reply = {
    "text": "The bound is off by one.",
    "calls": [
        {
            "name": "write_file",
            "args": {"path": "pages.py", "content": "def pages(total, size):\n    return -(-total // size)\n"},
        }
    ],
}
ANSWER: Reply = {
    "text": "## What changed\n\n`pages` now rounds **up**, so the last page is there:\n\n```python\n"
    "assert pages(11, 5) == 3\n```\n\n- the tests pass\n- nothing else calls it\n"
}
LONG: Reply = {
    "text": "I am reading every module in turn, and take notes on what each of them promises. " * 20,
    "delay": 0.1,
}


def save(terminal: Tmux, name: str, home: Home) -> None:
    shown = terminal.screen(colour=True).replace(str(home.work), "~/pages")
    shown = re.sub(r"sess_\w{20}", "sess_…", shown)
    console = Console(record=True, width=COLUMNS, file=(Path(home.directory) / "out").open("w"), force_terminal=True)
    console.print(Text.from_ansi(shown))
    drawn = console.export_svg(title="buddy")
    # The reader's own fonts: a picture must not fetch anything.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).replace("Fira Code, ", "")
    drawn = re.sub(r"<!--.*?-->\s*", "", drawn, flags=re.DOTALL)
    (IMAGES / f"{name}.svg").write_text(drawn, encoding="utf-8")


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    # A short name, because approvals show it.
    with tempfile.TemporaryDirectory(prefix="p", dir="/tmp") as folder:
        home = Home(Path(folder) / "h")
        home.work = Path(folder) / "pages"
        home.work.mkdir()
        home.script(shell("python -m pytest -q", "I run the tests first."), EDIT, ANSWER, LONG)
        (home.work / "pages.py").write_text("def pages(total, size):\n    return total // size\n")
        try:
            _tour(home)
        finally:
            home.run("daemon", "stop")
            subprocess.run(["tmux", "kill-server"], env=home.env, capture_output=True, check=False)


def _tour(home: Home) -> None:
    with Tmux(home, columns=COLUMNS, rows=ROWS, sandbox=None) as terminal:
        terminal.wait_for("(shift-tab)")
        save(terminal, "first-screen", home)
        terminal.keys("C-d")
    # Without a sandbox everything is asked.
    with Tmux(home, columns=COLUMNS, rows=ROWS) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("the last page is missing")
        terminal.wait_until(lambda screen: "pytest" in screen and "1 Yes" in screen)
        save(terminal, "approval", home)
        terminal.keys("4")
        terminal.wait_until(lambda screen: "+    return -(" in screen and "1 Yes" in screen)
        save(terminal, "diff", home)
        terminal.keys("1")
        terminal.wait_for("✓ done")
        terminal.enter("now read everything")
        terminal.wait_for("take notes")
        terminal.type("and then")
        terminal.wait_for("> and then")
        save(terminal, "long-run", home)


if __name__ == "__main__":
    main()
