"""Complete screens of the real program, at several sizes."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest

from tests.harness.home import Home
from tests.harness.scripts import Reply, shell
from tests.harness.terminal import Tmux
from tests.terminal.golden import check

EDIT: Reply = {
    "text": "The bound is off by one.",
    "calls": [
        {
            "name": "edit_file",
            "args": {"path": "pages.py", "old": "total // size", "new": "-(-total // size)"},
        }
    ],
}
ANSWER: Reply = {
    "thinking": "It rounds down.",
    "text": "## Done\n\n`pages` rounds **up** now:\n\n```python\nassert pages(11, 5) == 3\n```\n\n- nothing calls it\n",
}
BROKEN: Reply = {"text": "", "error": {"message": "the server is on fire"}}
LONG = shell("echo 1 of 30 modules; sleep 60", "I read every module in turn and take notes.")
COMMAND = "python -m pytest -q --maxfail=1 tests/test_pages.py tests/test_sizes.py && echo passed"


@pytest.fixture
def home() -> Iterator[Home]:
    """In a folder whose name always has the same length, so that lines wrap at the same place."""
    place = Path(tempfile.mkdtemp(prefix="b-", dir="/tmp"))
    found = Home(place / "h")
    found.work = place / "work"
    found.work.mkdir()
    found.env["HOME"] = str(place)
    yield found
    found.run("daemon", "stop")
    subprocess.run([str(shutil.which("tmux")), "kill-server"], env=found.env, capture_output=True, check=False)
    shutil.rmtree(place)


def turn_pages(terminal: Tmux) -> None:
    """To the end of what is asked."""
    for page in count(2):
        if "e Next page" not in terminal.screen():
            return
        terminal.keys("e")
        terminal.wait_for(f"page {page} of ")


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 15), (120, 40)])
def test_a_tour_looks_as_it_should(home: Home, columns: int, rows: int) -> None:
    (home.work / "pages.py").write_text("def pages(total, size):\n    return total // size\n")
    home.script()
    sections = [{"match": "once", "replies": [BROKEN]}, {"match": "read", "replies": [LONG]}]
    play = {"replies": [shell(COMMAND, "I run the tests first."), EDIT, ANSWER], "on": sections}
    (home.directory / "script.json").write_bytes(msgspec.json.encode(play))
    (home.directory.parent / ".config").symlink_to(home.directory / ".config")
    with Tmux(home, columns=columns, rows=rows) as terminal:
        terminal.wait_for("(shift-tab)")
        check(terminal, "first")
        terminal.enter("the last page is missing")
        terminal.wait_for("4 No")
        check(terminal, "approval")
        terminal.keys("4")
        terminal.wait_until(lambda screen: "pages.py" in screen and "4 No" in screen)
        check(terminal, "edit")
        turn_pages(terminal)
        terminal.keys("1")
        terminal.wait_for("✓ done")
        check(terminal, "answer")
        terminal.enter("once more")
        terminal.wait_for("✗ failed")
        check(terminal, "error")
        terminal.enter("now read everything")
        terminal.wait_until(lambda screen: "sleep 60" in screen and "4 No" in screen)
        turn_pages(terminal)
        terminal.keys("1")
        terminal.wait_for("Running run_shell")
        terminal.type("and then")
        terminal.wait_for("> and then")
        check(terminal, "long-run")
        terminal.keys("C-c", "Escape")
        terminal.wait_for("■ cancelled")
        terminal.keys("C-d")
        terminal.wait_for("[ended 0]")
        check(terminal, "left")
    with Tmux(home, "resume", "--last", columns=columns, rows=rows) as terminal:
        terminal.wait_for("■ cancelled")
        check(terminal, "resumed")


@pytest.mark.slow
def test_a_reply_is_complete_after_resizing_in_the_middle_of_it(home: Home) -> None:
    words = [f"word{number}" for number in range(120)]
    home.script({"text": f"{' '.join(words)}\n\nthe end", "delay": 0.02})
    (home.directory.parent / ".config").symlink_to(home.directory / ".config")
    with Tmux(home, columns=100, rows=30) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        for columns, rows, seen in ((80, 24, "word25"), (120, 40, "word50"), (40, 15, "word75"), (100, 30, "word95")):
            terminal.wait_for(seen, history=True)
            terminal.resize(columns, rows)
        terminal.wait_until(lambda screen: "✓ done" in screen and "context 0%" in screen)
        transcript = terminal.screen(history=True)
    answer = transcript[transcript.rindex("word0 ") :]
    assert answer.partition("the end")[0].split() == words
    assert [line for line in answer.splitlines()[-3:] if not line.startswith("✓")] == [
        ">",
        "approvals: ask (shift-tab) · scripted · context 0% · /help",
    ]
