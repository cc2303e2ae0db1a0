"""`buddy acp` in Toad, a terminal program for agents: what a person sees, and the keys they press."""

import os
import re
import shlex
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.processes import BUDDY, wait_until
from tests.harness.terminal import Tmux

AGENTS = Path(os.environ.get("BUDDY_AGENTS_DIR", str(Path.home() / ".cache" / "buddy-agents")))
TOAD = AGENTS / "toad" / "toad"
# Toad draws the screen of an approval part by part.
ANSWERS = ("a Allow once", "A Allow for this session", "Always allow edit_file a.txt", "r Deny")

pytestmark = [
    pytest.mark.skipif(not TOAD.exists(), reason="Toad is not installed; .ci/toad installs it"),
    pytest.mark.slow,
]


@pytest.fixture
def tmp_path() -> Generator[Path, None, None]:
    """A short path, as Toad shows it in full and breaks what follows it into lines."""
    with tempfile.TemporaryDirectory(prefix="toad-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def toad(home: Home) -> Generator[Tmux, None, None]:
    (home.work / "a.txt").write_text("one\ntwo\nthree\n")
    agent = shlex.join([*BUDDY, "acp", "--sandbox", "host"])
    program = shlex.join([str(TOAD), "acp", agent, str(home.work), "-t", "Buddy"])
    with Tmux(home, program=program, columns=110, rows=40) as tmux:
        tmux.wait_until(lambda screen: "Buddy" in screen and "Ask" in screen, wanted="the agent and its mode")
        yield tmux


def only_id(home: Home, kind: str, *command: str) -> str:
    (found,) = set(re.findall(rf"{kind}_\w+", home.run(*command, "--json").out))
    return found


def test_answers_the_plan_and_a_diff_are_on_the_screen(toad: Tmux, home: Home) -> None:
    toad.enter("hello there")
    toad.wait_for("hello yourself")
    assert "a greeting" in toad.screen()
    toad.wait_for("No plan yet")
    toad.enter("plan it")
    toad.wait_until(lambda screen: "planned" in screen and "No plan yet" not in screen, wanted="the plan")
    assert "look" in toad.screen() and "act" in toad.screen()

    toad.enter("edit it")
    for part in ("Approval request", *ANSWERS, "(+1, -1)", "three"):
        toad.wait_for(part)
    assert (home.work / "a.txt").read_text() == "one\ntwo\nthree\n"
    toad.keys("a")
    toad.wait_for("edited")
    assert (home.work / "a.txt").read_text() == "one\n2\nthree\n"


def test_a_turn_is_stopped_and_a_killed_screen_loses_nothing(toad: Tmux, home: Home) -> None:
    toad.enter("slow please")
    toad.wait_for("one two three four one two")
    toad.keys("Escape")
    toad.wait_for("again to cancel")
    toad.keys("Escape")
    session = only_id(home, "sess", "session", "list")
    wait_until(lambda: "cancelled" in home.run("session", "show", session).out, "the run to be cancelled")

    toad.enter("edit it")
    toad.wait_for("a Allow once")
    os.kill(toad.process, signal.SIGKILL)
    toad.wait_for("[ended")
    assert home.run("approvals", "approve", only_id(home, "appr", "approvals", "list")).code == 0
    wait_until(lambda: "edited" in home.run("session", "show", session).out, "the run to end without Toad")
    with Tmux(home, "resume", session) as terminal:
        terminal.wait_for("edited")
