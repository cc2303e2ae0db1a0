"""Slash commands and skills from files, and what hooks say, in the real terminal."""

import sys
import time
from pathlib import Path

import pytest

from buddy.terminal.lone_key import PAUSE_SECONDS
from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import Tmux
from tests.hooks.hooking import hook, listed, write_hooks
from tests.tools.mcp.servers import MODULES


def prepare(home: Home) -> None:
    user = Path(home.env["HOME"])
    (user / ".agents" / "commands").mkdir(parents=True)
    (user / ".agents" / "commands" / "greet.md").write_text("---\ndescription: say hello\n---\nGreet $1, please.")
    (user / ".claude" / "skills" / "polite").mkdir(parents=True)
    (user / ".claude" / "skills" / "polite" / "SKILL.md").write_text("---\ndescription: be polite\n---\nSay please.")


def test_commands_and_skills_are_listed_completed_and_sent(home: Home) -> None:
    prepare(home)
    with home.script({"text": "Hello there."}, {"text": "With pleasure."}) and Tmux(
        home, columns=100, rows=60
    ) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("/help")
        screen = terminal.wait_until(lambda text: "Ctrl-D: quit" in text, history=True)
        assert "say hello (user command)" in screen
        assert "be polite (user skill)" in screen
        terminal.type("/gre")
        terminal.wait_for("say hello")
        terminal.type("et Ada")
        terminal.keys("Enter")
        screen = terminal.wait_for("Hello there.")
        assert screen.count("> /greet Ada") == 1
        terminal.enter("/skill polite now")
        terminal.wait_for("With pleasure.")
        terminal.enter("/skill rude")
        terminal.wait_for("unknown skill 'rude'")
        terminal.enter("/grete")
        terminal.wait_for("unknown command /grete")


@pytest.mark.slow
def test_prompts_of_servers_are_completed_and_listed(home: Home) -> None:
    words = [f"--env={name}={value}" for name, value in MODULES.items()]
    with home.script({"text": "Hello there."}, {"text": "Reviewed."}) and Tmux(home, columns=100, rows=60) as terminal:
        added = home.run("mcp", "add", "one", *words, "--", sys.executable, "-m", "tests.harness.mcp_server")
        assert added.code == 0
        terminal.wait_for("(shift-tab)")
        terminal.enter("hello")
        terminal.wait_for("Hello there.")
        terminal.enter("/help")
        terminal.wait_until(lambda text: "Asks for a review. (user prompt) path style" in text, history=True)
        terminal.type("/mcp__one__r")
        terminal.wait_until(lambda text: "Asks for a review." in text.rpartition("/mcp__one__r")[2])
        terminal.type("eview main.py")
        terminal.keys("Enter")
        terminal.wait_for("Reviewed.")


@pytest.mark.slow
def test_a_guard_without_an_answer_asks_in_the_terminal(home: Home) -> None:
    path = Path(home.env["HOME"]) / ".config" / "buddy" / "hooks.json"
    write_hooks(path, listed({"PreToolUse": hook("echo oops >&2; exit 1", "Bash")}))
    with home.script(shell("touch made"), {"text": "Done."}) and Tmux(home, "--approve", "all") as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("make it")
        terminal.wait_for("gave no verdict")
        time.sleep(2 * PAUSE_SECONDS)  # a key soon after another one is typing, not an answer
        terminal.keys("4")
        terminal.wait_for("denied by you")
    assert not (home.work / "made").exists()
