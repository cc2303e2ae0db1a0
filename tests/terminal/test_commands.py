"""What each slash command shows and does, in the real program."""

import json
import subprocess

import pytest

from tests.harness.home import Home
from tests.harness.scripts import Reply, shell
from tests.harness.terminal import ENDLESS, Tmux

ANSWER: Reply = {"text": "an answer of some words"}


def ask(terminal: Tmux, line: str, wanted: str) -> str:
    """Type a command, and return what it shows: everything between its echo and the input line."""
    terminal.enter(line)

    def output(screen: str) -> str:
        return screen.rpartition("\n>")[0].rpartition(f"> {line}\n")[2]

    return output(terminal.wait_until(lambda screen: wanted in output(screen), wanted=wanted, history=True))


@pytest.mark.slow
def test_commands_before_the_first_message_leave_no_session(home: Home) -> None:
    with home.script(ANSWER) and Tmux(home, columns=100, rows=60) as terminal:
        terminal.wait_for("(shift-tab)")
        shown = ask(terminal, "/status", "daemon ")
        for text in ("script · script", "starts with your first message", "local, sandbox host", "run_shell"):
            assert text in shown
        assert "send-keys" not in shown
        for line in ("/context", "/compact", "/fork", "/export"):
            ask(terminal, line, "no messages yet")
        ask(terminal, "/ps", "no run is active")
        ask(terminal, "/kill 1", "✗ no run is active")
        ask(terminal, "/kill", "no run given")
        ask(terminal, "/timeout", "no duration given")
        ask(terminal, "/timeout 5m", "✗ no run is active")
        ask(terminal, "/session", "no sessions in this folder")
        ask(terminal, "/session resume last", "✗ no session in")
        ask(terminal, "/session burn", "✗ unknown /session action 'burn'")
        ask(terminal, "/resume", "✗ no sessions in this folder")
        ask(terminal, "/steer left", "✗ no run is active")
        ask(terminal, "/approve", "approvals: ask")
        ask(terminal, "/model 7", "✗ no profile number 7")
        ask(terminal, "/model grok", "✗ unknown profile 'grok'. Available: script")
        ask(terminal, "/timeout 5x", "✗ '5x' is not a duration")
        ask(terminal, "/SESSION  Resume", "✗ unknown /session action 'Resume'")
        assert "no cost yet" in ask(terminal, "/cost", "0 runs")
        ask(terminal, "/diff", "not a git repository")
        ask(terminal, "/doctor", "sessions")
        ask(terminal, "/help", "Ctrl-D: quit")
    assert home.run("session", "list").out == ""


def test_each_command_after_the_first_message(home: Home) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (home.work / "new.txt").write_text("one\n")
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "x"], ["add", "new.txt"]):
        subprocess.run([*git, *words], cwd=home.work, env=home.env, check=True)
    with home.script(ANSWER) and Tmux(home, columns=100, rows=60) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("the first prompt")
        terminal.wait_for("✓ done")
        shown = ask(terminal, "/context", "used in this session")
        for part in ("system prompt", "tools", "messages", "reserved for the reply"):
            assert part in shown
        assert "1 message," in ask(terminal, "/status", "daemon ")
        ask(terminal, "/cost", "1 run without a known price, not counted")
        ask(terminal, "/export /nowhere/x", "✗ No such file or directory: /nowhere/x")
        ask(terminal, "/compact all", "✗ unknown /compact option 'all'")
        ask(terminal, "/compact", "nothing to compact")
        ask(terminal, "/compact undo", "nothing to undo")
        ask(terminal, "/permissions", "Buddy asks before every side effect")
        ask(terminal, "/approve 10m", "approvals: auto-approving everything for")
        ask(terminal, "/approve soon", "use ask, auto, all, none, or a duration")
        ask(terminal, "/approve ask", "approvals: ask")
        shown = ask(terminal, "/diff", "+one")
        assert "A  new.txt" in shown
        ask(terminal, "/export all.jsonl", "events to all.jsonl")
        ask(terminal, "/export all.jsonl", "✗ all.jsonl exists")
        ask(terminal, "/fork", "Forked from sess_")
        ask(terminal, "/session", "· the first prompt")
        ask(terminal, "/new", "A new session starts")
        ask(terminal, "/resume", "Resume a session (")
        terminal.keys("2")
        terminal.wait_until(lambda screen: "> the first prompt" in screen.rpartition("── session")[2])
        terminal.enter("/init")
        terminal.wait_for("> Look at this repository")
        terminal.wait_until(lambda screen: "✓ done" in screen.rpartition("> Look at this")[2])
        ask(terminal, "/login", "error: ")
        terminal.wait_until(lambda screen: "· /help" in screen.rpartition("error: ")[2])  # the keys are ours again
        terminal.enter("/q")
        assert "Resume with: buddy resume sess_" in terminal.wait_for("[ended 0]")


@pytest.mark.slow
def test_grants_are_listed_and_taken_back(home: Home) -> None:
    over: Reply = {"text": "over"}
    home.script(shell("echo one"), over, shell("ls -a"), over, shell("echo one"), over)
    with Tmux(home, columns=140, rows=50) as terminal:
        terminal.wait_for("(shift-tab)")
        ask(terminal, "/permissions burn", "✗ unknown /permissions action 'burn'")
        terminal.enter("go")
        terminal.wait_for("t For 10 min")
        terminal.keys("2")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 1)
        terminal.enter("on")
        terminal.wait_for("t For 10 min")
        terminal.keys("t", "Enter")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 2)
        shown = ask(terminal, "/permissions", "ends a grant")
        first, second = [line.split()[0] for line in shown.splitlines() if line.strip().startswith("appr_")]
        assert f"{first}  for this session: run_shell echo one" in shown
        assert f"{second}  for a time, expires in " in shown
        shown = ask(terminal, "/status", "daemon ")
        assert "granted    for this session: run_shell echo one" in shown
        assert "granted    for a time, expires in " in shown
        ask(terminal, f"/permissions revoke {first}", f"grant {first} revoked")
        ask(terminal, f"/permissions revoke {second[-6:]}", f"grant {second} revoked")
        terminal.enter("/status")
        again = terminal.wait_until(lambda screen: "daemon " in screen.rpartition(f"grant {second} revoked")[2])
        assert "granted " not in again.rpartition("> /status")[2]
        ask(terminal, "/permissions revoke 12345678", "no rule 12345678 in ")
        terminal.enter("go")
        terminal.wait_until(lambda screen: "t For 10 min" in screen.rpartition("> go")[2])
        assert home.run("approvals", "list").out.startswith("pending  ")


@pytest.mark.slow
def test_rules_that_always_has_made_are_in_the_status(home: Home) -> None:
    home.script(shell("ls -a"), {"text": "over"})
    with Tmux(home, columns=60, rows=50) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("3 Always")
        terminal.keys("3")
        terminal.wait_for("✓ done")
        shown = ask(terminal, "/status", "daemon ")
        (rule,) = [line for line in shown.splitlines() if line.startswith("  rule ")]
        assert "allow" in rule
        # Lines that are too long continue below their value.
        tools = shown[shown.index("  tools") :].splitlines()
        assert tools[1].startswith(" " * 13 + tools[1].strip()[:1])
        assert not tools[0].endswith(" ")


@pytest.mark.slow
@pytest.mark.parametrize("part", [slice(None, 14), slice(4, 16), slice(-6, None)])
def test_kill_takes_the_start_or_the_end_of_an_id(home: Home, part: "slice[int | None, int | None, None]") -> None:
    with home.script(ENDLESS) and Tmux(home, columns=120) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        terminal.wait_for("the quick brown fox")
        session_id = json.loads(home.run("ps", "--json").out)[0]["sessionId"]
        exported = home.run("session", "export", session_id).out.splitlines()
        run_id = next(json.loads(line)["runId"] for line in exported if '"run_started"' in line)
        terminal.enter(f"/kill {run_id[part]}")
        terminal.wait_for("cancelled")
