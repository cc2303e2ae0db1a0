"""The past of a session: marks, changed files, the state at a point, and pages read backwards."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

from tests.harness.clients import decide, read_log, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.scripts import Reply, section, shell
from tests.harness.wire_client import ErrorResponse, WireClient

LONG = "".join(f"line {number}\n" for number in range(9000))


def write(path: str, content: str) -> dict[str, Any]:
    return {"calls": [{"name": "write_file", "args": {"path": path, "content": content}}]}


def edit(path: str, old: str, new: str) -> dict[str, Any]:
    return {"calls": [{"name": "edit_file", "args": {"path": path, "old": old, "new": new}}]}


READ = {"calls": [{"name": "read_file", "args": {"path": "a.txt"}}]}
SCRIPT: list[Reply] = [
    section("^write", write("b.txt", "one\ntwo\nthree\n"), edit("b.txt", "two", "2"), {"text": "written"}),
    section("^change", READ, edit("a.txt", "hello", "goodbye"), {"text": "changed"}),
    section("^fail", edit("a.txt", "no such text", "x"), {"text": "failed"}),
    section("^long", write("long.txt", LONG), {"text": "written"}),
    section("^ask", shell("echo asked"), {"text": "asked"}),
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("d"), script=SCRIPT) as daemon:
        yield daemon


@pytest.fixture
async def client(daemon: Daemon) -> AsyncGenerator[WireClient]:
    async with wire_client(daemon) as client:
        yield client


async def run(client: WireClient, session_id: str, text: str) -> str:
    run_id = await send(client, session_id, text)
    await client.wait_for("run_complete")
    return run_id


async def test_changed_files_by_run_turn_and_call(client: WireClient, daemon: Daemon) -> None:
    (daemon.workspace / "a.txt").write_text("hello")
    session_id = await start(client, daemon, approvalPolicy="all")
    empty = await client.ask("list_changes", {}, session_id)
    assert empty["files"] == []
    assert "shell" in empty["uncovered"]
    first = await run(client, session_id, "write")
    second = await run(client, session_id, "change")
    await run(client, session_id, "fail")
    last = (await client.ask("list_changes", {"diff": True}, session_id))["files"]
    assert [(file["path"], file["change"], file["added"], file["removed"]) for file in last] == [
        ("a.txt", "modified", 1, 1)
    ]
    assert "-hello" in last[0]["diff"]
    assert "+goodbye" in last[0]["diff"]
    assert (await client.ask("list_changes", {"runId": second}, session_id))["files"][0].get("diff") is None
    of_first = (await client.ask("list_changes", {"runId": first, "diff": True}, session_id))["files"]
    assert [(file["path"], file["change"], file["added"], file["removed"]) for file in of_first] == [
        ("b.txt", "added", 3, 0)
    ]
    assert "+one\n+2\n+three\n" in of_first[0]["diff"]
    one = (await client.ask("list_changes", {"runId": first, "turn": 2}, session_id))["files"]
    assert [(file["added"], file["removed"]) for file in one] == [(1, 1)]
    everything = (await client.ask("list_changes", {"all": True}, session_id))["files"]
    assert [file["path"] for file in everything] == ["b.txt", "a.txt"]
    events = await read_log(client, session_id)
    end = next(event["seq"] for event in events if event["type"] == "run_complete")
    since = (await client.ask("list_changes", {"toSeq": end}, session_id))["files"]
    assert [file["path"] for file in since] == ["a.txt"]
    written = next(event["seq"] for event in events if event["type"] == "tool_result")
    then = (await client.ask("list_changes", {"all": True, "atSeq": written}, session_id))["files"]
    assert [(file["path"], file["added"]) for file in then] == [("b.txt", 3)]


async def test_a_long_file_is_counted_in_full_and_its_diff_cut(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "long")
    [file] = (await client.ask("list_changes", {"diff": True}, session_id))["files"]
    assert len(file["diff"]) < 40_000
    assert "the diff is cut here" in file["diff"]


async def test_marks_and_the_state_at_each_of_them(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon)
    await send(client, session_id, "ask")
    asked = await client.wait_for("approval_required")
    live = await client.ask("get_snapshot", {}, session_id)
    await decide(client, asked)
    await client.wait_for("run_complete")
    await run(client, session_id, "fail")
    marks = (await client.ask("list_marks", {}, session_id))["marks"]
    kinds = [mark["kind"] for mark in marks]
    assert kinds[:4] == ["message", "turn", "approval", "turn"]
    assert "error" in kinds
    assert marks[0]["label"] == "ask"
    assert [mark["seq"] for mark in marks] == sorted(mark["seq"] for mark in marks)
    then = await client.ask("get_snapshot", {"atSeq": asked["seq"]}, session_id)
    assert then["state"] == "awaiting_approval"
    assert then["pendingApproval"] == live["pendingApproval"]
    assert [call["name"] for call in then["openCalls"]] == ["run_shell"]
    after = await client.ask("get_snapshot", {"atSeq": marks[-1]["seq"]}, session_id)
    assert after["tokens"] > then["tokens"] >= 0
    assert after["approvals"] == []
    now = await client.ask("get_snapshot", {"atSeq": (await read_log(client, session_id))[-1]["seq"]}, session_id)
    assert (now["state"], now["lastAssistantText"]) == ("idle", "failed")


async def test_events_are_read_backwards_and_by_type(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    for _ in range(3):
        await run(client, session_id, "change")
    events = await read_log(client, session_id)

    async def read(**payload: Any) -> list[int]:
        found = await client.ask("read_events", {"after": 0, **payload}, session_id)
        return [event["seq"] for event in found["events"]]

    seqs = [event["seq"] for event in events]
    last = seqs[-1] + 1
    assert await read(before=last, limit=5) == seqs[-5:]
    assert await read(before=seqs[-5], limit=5) == seqs[-10:-5]
    assert await read(before=4, limit=500) == seqs[:3]
    assert await read(before=1) == []
    assert await read(before=10**30, limit=5) == seqs[-5:], "it is not looked for from there on downwards"
    assert await read(after=10**30) == []
    assert await read(before=last, after=seqs[-3], limit=500) == seqs[-2:]
    ends = [event["seq"] for event in events if event["type"] == "run_complete"]
    assert await read(types=["run_complete"]) == ends
    assert await read(types=["run_complete"], before=last, limit=2) == ends[-2:]


async def test_profiles_name_models_and_no_secrets(client: WireClient) -> None:
    profiles = (await client.ask("list_profiles"))["profiles"]
    assert [profile["name"] for profile in profiles if profile.get("default")] == ["script"]
    assert {"name", "model", "api"} <= profiles[0].keys()
    assert "canary" not in str(profiles).lower()


async def test_what_a_log_does_not_have_is_refused(shared: Daemon) -> None:
    async with wire_client(shared) as client:
        session_id = await start(client, shared)
        await send(client, session_id, "count")
        last = (await client.wait_for("run_complete"))["seq"]
        with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
            await client.ask("get_snapshot", {"atSeq": last + 99}, session_id)
        with pytest.raises(ErrorResponse, match="SESSION_NOT_FOUND"):
            await client.ask("list_decisions", {"sessionId": "sess_missing"})
        assert (await read_log(client, session_id))[0]["seq"] == 1
