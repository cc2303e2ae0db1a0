"""What a person looks at or leaves with, also while a run is active: lists, outputs, titles, the clipboard."""

import base64
import re
import subprocess
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.scripts import Reply, shell
from tests.harness.terminal import Tmux

ENDLESS: Reply = {"text": "the quick brown fox " * 2000, "delay": 0.05}
ANSWER: Reply = {"text": "an answer of some words"}


@pytest.mark.slow
def test_what_reads_or_leaves_works_during_the_first_run(home: Home) -> None:
    with home.script(ENDLESS) and Tmux(home, columns=120, rows=60) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("first")
        terminal.wait_for("quick brown fox")  # before the first request there is nothing to show
        terminal.enter("/context")
        screen = terminal.wait_for("system prompt", history=True)
        used, limit = re.findall(r"· ([\d.k]+) of ([\d.k]+) tokens", screen)[-1]
        assert (used != "0", limit != "1") == (True, True)
        for line, shown in (
            ("/cost", "0 tokens in"),
            ("/permissions", "rule"),
            ("/diff", "not a git repository"),
            ("/session", "running"),
            ("/export out.jsonl", "events to out.jsonl"),
            ("/rename the fox", "Title: the fox"),
            ("/help", "Ctrl-D: quit"),
        ):
            terminal.enter(line)
            terminal.wait_for(shown, history=True)
        terminal.enter("/compact")
        terminal.wait_for("try again after it, or stop it with Esc", history=True)
        terminal.enter("/clear")
        terminal.wait_for("A new session starts with your next message", history=True)
        terminal.enter("/resume")
        terminal.wait_for("running")
        terminal.keys("Enter")
        terminal.wait_for("Esc to interrupt")
        terminal.enter("/quit")
        terminal.wait_for("Resume with: buddy resume")
        terminal.wait_for("The run continues in the background.")


@pytest.mark.slow
def test_resume_without_an_id_lets_you_search(home: Home) -> None:
    home.script(ANSWER, ANSWER, ANSWER)
    for prompt in ("count the sheep", "paint the barn", "milk the cows"):
        home.run("exec", prompt)
    assert home.run("session", "rename", "2", "Red", "paint").code == 0
    with Tmux(home, "resume", columns=100, rows=30) as terminal:
        terminal.wait_for("Resume a session (type to search")
        assert "milk the cows" in terminal.wait_for("Red paint")
        terminal.type("RED")
        screen = terminal.wait_for("Resume a session: RED (1 of 3)")
        assert "milk the cows" not in screen
        terminal.keys("BSpace", "BSpace", "BSpace")
        terminal.wait_for("milk the cows")
        terminal.type("zzz")
        terminal.wait_for("nothing matches")
        terminal.keys("Escape")
        terminal.wait_for("(type to search")
        terminal.type("sheep count")
        terminal.wait_for("(1 of 3)")
        terminal.keys("Enter")
        terminal.wait_for("> count the sheep")
        terminal.wait_for("an answer of some words")


def test_without_a_terminal_resume_needs_an_id(home: Home) -> None:
    home.script(ANSWER)
    home.run("exec", "count")
    done = home.run("resume")
    assert (done.code, "no session given" in done.err) == (64, True)


@pytest.mark.slow
def test_the_whole_output_of_a_call_is_shown_page_by_page(home: Home) -> None:
    home.script(shell("printf 'a\\342\\200\\256b\\n'; seq 1 450"), ANSWER)
    with Tmux(home, "--approve", "all", columns=100, rows=30) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("✓ done")
        terminal.keys("C-o")
        screen = terminal.wait_for("more lines; Ctrl-O or the same command shows the next 200", history=True)
        assert "── output of run_shell" in screen
        assert "a\\u202eb" in screen
        terminal.keys("C-o")
        terminal.keys("C-o")
        terminal.wait_until(lambda screen: bool(re.search(r"^ +450$", screen, re.MULTILINE)))
        terminal.enter("/show 7")
        terminal.wait_for("no tool call number 7")


def test_the_last_answer_is_copied(home: Home) -> None:
    with home.script(ANSWER) and Tmux(home, columns=100, rows=30) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("/copy")
        terminal.wait_for("there is no answer to copy yet")
        recorded = home.directory / "recorded"
        terminal.record(recorded)
        terminal.enter("go")
        terminal.wait_for("✓ done")
        terminal.enter("/copy")
        terminal.wait_for("Copied the last answer (23 characters)")
        wanted = base64.b64encode(b"an answer of some words")
        terminal.wait_until(lambda _: wanted in recorded.read_bytes())


@pytest.mark.slow
def test_a_question_mark_alone_shows_the_keys(home: Home) -> None:
    with home.script(ANSWER) and Tmux(home, columns=100, rows=30) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.type("?")
        terminal.wait_for("Ctrl-R: history")
        terminal.type("?why")
        terminal.wait_for("> ?why")


@pytest.mark.slow
def test_the_branch_is_in_the_toolbar(home: Home) -> None:
    subprocess.run(["git", "init", "-q", "-b", "sheep/dip", str(home.work)], check=True)
    with home.script(ANSWER) and Tmux(home, columns=100, rows=30) as terminal:
        terminal.wait_for("sheep/dip")
        Path(home.work / ".git" / "HEAD").write_text("ref: refs/heads/\x1b[31mred\n")
        terminal.wait_until(lambda screen: terminal.type("x") is None and "\\x1b[31mred" in screen)


@pytest.mark.slow
def test_new_files_are_shown_also_before_the_first_commit(home: Home) -> None:
    subprocess.run(["git", "init", "-q", str(home.work)], check=True)
    (home.work / "staged.txt").write_text("was staged\n")
    subprocess.run(["git", "-C", str(home.work), "add", "staged.txt"], check=True)
    (home.work / "new.txt").write_text("brand new\n")
    with home.script(ANSWER) and Tmux(home, columns=100, rows=40) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("/diff")
        terminal.wait_for("+brand new")
        screen = terminal.wait_for("+was staged")
        assert "fatal" not in screen
