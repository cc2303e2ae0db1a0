"""`buddy session import`, `search` and `fork`."""

import json
from pathlib import Path

from tests.harness.home import Home

MESSAGES: list[dict[str, object]] = [
    {"role": "system", "content": "be good"},
    {"role": "user", "content": "what is in /tmp?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "run_shell", "arguments": '{"command":"ls"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "exit code: 0"},
    {"role": "assistant", "content": "Nothing but dust.", "reasoning_content": "hm"},
    {"role": "user", "content": "thanks"},
]


def old_session(folder: Path, messages: list[dict[str, object]]) -> None:
    folder.mkdir(parents=True)
    content = {
        "version": 1,
        "id": "ab12-cd34",
        "updated_at_millis": 1,
        "state": {"messages": messages, "tracker": None},
    }
    (folder / "ab12-cd34.json").write_text(json.dumps(content))
    (folder / "broken.json").write_text("{")


def test_an_imported_session_can_be_continued(home: Home) -> None:
    home.script({"text": "one"}, {"text": "two"}, {"text": "three"})
    old_session(home.work / ".buddyx" / "sessions", MESSAGES)
    done = home.run("session", "import", ".")
    assert done.code == 0, done.err
    assert "broken.json skipped" in done.err
    session_id = done.out.strip()
    told = home.run("session", "show", session_id).out
    for text in ("what is in /tmp?", "exit code: 0", "Nothing but dust.", "thanks", "success"):
        assert text in told
    again = home.run("session", "import", ".")
    assert (again.code, again.out.strip()) == (0, session_id)
    assert "ab12-cd34.json was imported before" in again.err
    resumed = home.run("resume", "--last", "--json")
    assert (resumed.code, json.loads(resumed.out)["exitCode"]) == (0, 0)
    (listed,) = json.loads(home.run("session", "list", "--json").out)["sessions"]
    assert (listed["state"], listed["prompt"]) == ("idle", "what is in /tmp?")


def test_a_folder_without_sessions_is_reported(home: Home) -> None:
    done = home.script({"text": "hi"}).run("session", "import", ".")
    assert (done.code, done.out) == (64, "")
    assert "no session files in" in done.err


def test_what_was_said_can_be_found(home: Home) -> None:
    home.script({"text": "A needle, in a haystack."}).run("exec", "look for it")
    found = home.run("session", "search", "NEEDLE")
    assert found.out.startswith("sess_")
    assert "A needle, in a haystack." in found.out
    assert len(json.loads(home.run("session", "search", "look", "--json").out)["found"]) == 1
    assert "contains 'thimble'" in home.run("session", "search", "thimble").err
