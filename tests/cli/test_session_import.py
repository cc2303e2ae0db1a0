"""`buddy session import`, `search` and `fork`."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.harness.fake_model import Answer, FakeModel, Request, answer_to, says
from tests.harness.home import Home

USED_AT = 1_600_000_000_000
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
        "updated_at_millis": USED_AT,
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


@pytest.mark.slow
def test_an_imported_session_is_known_by_its_old_id_and_used_last_when_it_was(home: Home) -> None:
    home.script({"text": "one"}, {"text": "two"})
    home.run("exec", "something newer")
    old_session(home.work / ".buddyx" / "sessions", MESSAGES)
    session_id = home.run("session", "import", ".").out.strip()
    told = home.run("session", "show", "ab12-cd34")
    assert (told.code, "Nothing but dust." in told.out) == (0, True), told.err
    listed = json.loads(home.run("session", "list", "--json").out)["sessions"]
    assert [(row["sessionId"], row["updatedAt"]) for row in listed[1:]] == [(session_id, USED_AT)]
    resumed = home.run("resume", "ab12-cd34", "--json", "and now?")
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out)["sessionId"] == session_id
    listed = json.loads(home.run("session", "list", "--json").out)["sessions"]
    assert listed[0]["sessionId"] == session_id
    unknown = home.run("session", "show", "ab12-cd35")
    assert (unknown.code, "no session ab12-cd35" in unknown.err) == (64, True)


async def test_the_reasoning_of_an_imported_session_is_sent_back(home: Home) -> None:
    def reply(request: Request) -> Answer:
        return answer_to(request, says("fine"))

    old_session(home.work / ".agentx" / "sessions", MESSAGES)
    async with FakeModel(reply) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m", "BUDDY_CONTEXT_LIMIT": "32000"}
        for arguments in (("session", "import", "."), ("resume", "ab12-cd34", "go on")):
            done = await asyncio.to_thread(home.run, *arguments, env=env)
            assert done.code == 0, done.err
        [sent] = [request.body for request in model.requests if request.path.endswith("/chat/completions")]
    said = [message for message in sent["messages"] if message["role"] == "assistant"]
    assert [message.get("reasoning_content") for message in said] == ["", "hm"]


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
