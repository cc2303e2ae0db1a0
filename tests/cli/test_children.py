"""Sub-agents as people meet them: in `exec`, `ps`, the list of sessions, `doctor`, and in a terminal."""

import json
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.scripts import section, shell, write_config, write_script

REVIEWER = """---
name: reviewer
description: Reviews a change and reports bugs.
tools: Read, Grep
model: sonnet
---
Report bugs.
"""
SCRIPT = {
    "on": [
        section(
            "^hand over$",
            {"calls": [{"name": "delegate", "args": {"task": "part one", "agent": "reviewer"}}]},
            {"text": "All is back."},
        ),
        section("^make$", {"calls": [{"name": "delegate", "args": {"task": "part two"}}]}, {"text": "It is made."}),
        section("part one", {"text": "no bugs"}),
        section("part two", shell("touch made"), {"text": "made"}),
    ],
    "replies": [],
}


def prepare(home: Home) -> Path:
    """A home with a script, and a definition in its own folder."""
    write_config(home.directory / ".config" / "buddy" / "buddy.toml", write_script(home.directory, SCRIPT))
    folder = home.directory / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "reviewer.md").write_text(REVIEWER, encoding="utf-8")
    return folder


def test_exec_reports_and_counts_a_sub_agent(home: Home) -> None:
    prepare(home)
    done = home.run("exec", "--json", "--sandbox", "host", "--approve", "all", "hand over")
    found = json.loads(done.out)
    assert (done.code, found["text"]) == (0, "All is back.")
    assert "sub-agent reviewer started: session sess_" in done.err
    assert "sub-agent reviewer finished: success" in done.err
    tokens = found["usage"]["inputTokens"] + found["usage"]["outputTokens"]
    assert tokens == found["usage"]["budget"]["tokens"]
    rows = json.loads(home.run("session", "list", "--json").out)["sessions"]
    child = next(row for row in rows if row["agent"] == "reviewer")
    assert child["parent"] == found["sessionId"]
    assert "[reviewer of …" in home.run("session", "list").out
    again = home.run("exec", "-c", "--approve", "all", "hello")
    assert found["sessionId"] in again.err, "the last session is not the sub-agent's"


def test_without_a_person_the_first_denial_ends_the_run(home: Home) -> None:
    prepare(home)
    done = home.run("exec", "--sandbox", "host", "--approve", "ask", "make")
    assert done.code == 3
    assert not (home.work / "made").exists()


def test_a_person_decides_for_a_sub_agent_in_exec(home: Home) -> None:
    prepare(home)
    with home.terminal("exec", "--sandbox", "host", "--approve", "ask", "make", size=(100, 40)) as terminal:
        terminal.wait_for("start the sub-agent general")
        terminal.wait_for("[y/N]")
        terminal.type("y\r")
        terminal.wait_for("sub-agent general: ")
        terminal.wait_for("touch made")
        terminal.wait_for("[y/N]", times=2)
        terminal.type("y\r")
        terminal.wait_for("It is made.")
    assert (home.work / "made").exists()


@pytest.mark.slow
def test_doctor_names_definitions_and_what_is_wrong_with_them(home: Home) -> None:
    folder = prepare(home)
    (folder / "broken.md").write_text("no front matter", encoding="utf-8")
    (folder / "silent.md").write_text("---\nname: silent\n---\nx", encoding="utf-8")
    own = home.work / ".agents" / "agents"
    own.mkdir(parents=True)
    (own / "reviewer.md").write_text(REVIEWER, encoding="utf-8")
    said = home.run("doctor").out
    assert "broken.md: it has no front matter" in said
    assert "silent.md: its front matter has no description" in said
    assert f"those of {home.work} are not used: it is not trusted" in said
    home.run("trust", str(home.work))
    assert f"not used, {own / 'reviewer.md'} defines 'reviewer', too" in home.run("doctor").out
