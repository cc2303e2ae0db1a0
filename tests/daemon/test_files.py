"""Files that a session changes: events, requests, conflicts, rules, and what is said when they cannot be covered."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.clients import decide, read_log, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.processes import wait_until
from tests.harness.scripts import Reply, section, shell
from tests.harness.wire_client import ErrorResponse, WireClient

RULES = """
[[permissions.rules]]
decision = "deny"
tool = "write_file"
path = "locked/**"
[[permissions.rules]]
decision = "deny"
tool = "read_file"
path = "closed/**"
"""
READ = {"calls": [{"name": "read_file", "args": {"path": "a.txt"}}]}
WRITE = {"calls": [{"name": "write_file", "args": {"path": "in/here/b.txt", "content": "one\ntwo\n"}}]}
SCRIPT: list[Reply] = [
    section("^both", WRITE, shell("echo more >> in/here/b.txt; rm a.txt"), {"text": "done"}),
    section("^read", READ, shell("cat a.txt | sort; ls"), {"text": "read"}),
    section("^fail", shell("echo partly > part.txt; exit 3"), {"text": "failed"}),
    section("^lock", shell("mkdir -p locked; echo x > locked/file; echo x > free"), {"text": "done"}),
    section("^close", shell("echo changed > closed/file"), {"text": "done"}),
    section("^slow", shell("echo begun > slow.txt; exec sleep 600"), {"text": "never"}),
    section("^long", shell("seq 20000 > long.txt"), {"text": "done"}),
    section("^wait", shell("echo w > waited; until [ -e go ]; do sleep 0.05; done"), {"text": "done"}),
    section("^one", shell("echo ONE > first.txt"), {"text": "done"}),
    section("^two", shell("echo TWO >> first.txt; echo TWO > second.txt"), {"text": "done"}),
    section("^name", shell('for n in a b; do echo n > "$n-$CANARY_API_KEY"; done'), {"text": "done"}),
    section("^key", shell("printenv CANARY_API_KEY > key.txt"), {"text": "done"}),
]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("d"), script=SCRIPT)
    daemon.config.write_text(daemon.config.read_text() + RULES)
    with daemon:
        yield daemon


@pytest.fixture
async def client(daemon: Daemon) -> AsyncGenerator[WireClient]:
    for name in ("part.txt", "slow.txt", "waited", "go"):  # what another test may have left
        (daemon.workspace / name).unlink(missing_ok=True)
    (daemon.workspace / "a.txt").write_text("hello")
    async with wire_client(daemon) as client:
        yield client


async def run(client: WireClient, session_id: str, text: str) -> str:
    run_id = await send(client, session_id, text)
    await client.wait_for("run_complete")
    return run_id


async def changed(client: WireClient, session_id: str) -> list[dict[str, Any]]:
    return [event for event in await read_log(client, session_id) if event["type"] == "files_changed"]


def names(files: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(file["path"], file["change"]) for file in files]


async def test_each_call_says_what_it_changed_and_can_be_undone_by_itself(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    run_id = await run(client, session_id, "both")
    first, second = await changed(client, session_id)
    assert names(first["payload"]["files"]) == [("in/here/b.txt", "added")]
    assert names(second["payload"]["files"]) == [("a.txt", "deleted"), ("in/here/b.txt", "modified")]
    assert (first["runId"], second["payload"]["files"][1]["added"]) == (run_id, 1)
    events = await read_log(client, session_id)
    assert events[-1]["type"] == "run_complete"
    call = second["payload"]["callId"]
    preview = await client.ask("restore_files", {"callId": call}, session_id)
    assert names(preview["restored"]) == [("a.txt", "added"), ("in/here/b.txt", "modified")]
    assert not (daemon.workspace / "a.txt").exists()
    done = await client.ask("restore_files", {"callId": call, "dryRun": False}, session_id)
    assert (done["conflicts"], (daemon.workspace / "in/here/b.txt").read_text()) == ([], "one\ntwo\n")
    restored = await client.wait_for("files_restored")
    assert restored["payload"]["checkpointId"] == done["checkpointId"]
    await client.ask("restore_files", {"toSeq": 0, "dryRun": False}, session_id)
    assert not (daemon.workspace / "in").exists()


async def test_calls_that_only_read_leave_no_checkpoint(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "read")
    assert await changed(client, session_id) == []
    with_nothing = await client.ask("restore_files", {"dryRun": False}, session_id)
    assert (with_nothing["restored"], with_nothing["conflicts"]) == ([], [])


async def test_what_a_command_that_only_reads_costs_is_not_a_look_at_the_files(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        (daemon.workspace / "a.txt").write_text("hello")
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon, approvalPolicy="all")
            await run(client, session_id, "read")
            assert list(daemon.state_dir.rglob("checkpoints.db")) == []
            await run(client, session_id, "long")
            assert names((await changed(client, session_id))[0]["payload"]["files"]) == [("long.txt", "added")]


async def test_a_call_that_failed_or_was_cancelled_is_undone_too(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "fail")
    run_id = await send(client, session_id, "slow")
    await client.wait_for("tool_claimed")
    await asyncio.to_thread(wait_until, (daemon.workspace / "slow.txt").exists, "the command to begin")
    with pytest.raises(ErrorResponse, match="RUN_IN_PROGRESS"):
        await client.ask("restore_files", {"dryRun": False}, session_id)
    await client.ask("cancel_run", {"sessionId": session_id, "runId": run_id}, session_id)
    await client.wait_for("run_complete")
    await client.ask("restore_files", {"all": True, "dryRun": False}, session_id)
    assert not (daemon.workspace / "slow.txt").exists()
    assert not (daemon.workspace / "part.txt").exists()


async def test_a_rule_that_denies_a_path_holds_for_an_undo(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "lock")
    done = await client.ask("restore_files", {"dryRun": False, "force": ["locked/file"]}, session_id)
    assert [file["path"] for file in done["restored"]] == ["free"]
    assert "a rule denies it" in str(done["conflicts"])
    assert (daemon.workspace / "locked" / "file").exists()


async def test_a_file_that_a_rule_closes_to_reading_is_not_kept(client: WireClient, daemon: Daemon) -> None:
    (daemon.workspace / "closed").mkdir()
    (daemon.workspace / "closed" / "file").write_text("not to be read")
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "close")
    done = await client.ask("restore_files", {"dryRun": False}, session_id)
    assert done["conflicts"] == [{"path": "closed/file", "why": "its earlier content was not kept"}]
    stored = b"".join(path.read_bytes() for path in (daemon.state_dir / "checkpoints").rglob("*") if path.is_file())
    assert b"not to be read" not in stored


async def test_secrets_are_redacted_in_diffs_and_kept_in_files(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "key")
    content = (daemon.workspace / "key.txt").read_text()
    listed = await client.ask("list_changes", {"diff": True}, session_id)
    assert "REDACTED" in listed["files"][0]["diff"]
    await client.ask("restore_files", {"dryRun": False}, session_id)
    await client.ask("restore_files", {"redo": True, "dryRun": False}, session_id)
    assert (daemon.workspace / "key.txt").read_text() == content


async def test_secrets_are_redacted_in_names_and_such_files_can_be_restored(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "name")
    paths = sorted(daemon.workspace.glob("[ab]-*"))
    hidden = ["a-[REDACTED]", "b-[REDACTED]"]
    for path in paths:
        path.write_text("edited")
    listed = await client.ask("list_changes", {"diff": True}, session_id)
    assert sorted(file["path"] for file in listed["files"]) == hidden
    [one] = (await client.ask("list_changes", {"path": hidden[0]}, session_id))["files"]
    assert one["path"] == hidden[0]
    found = await client.ask("restore_files", {"dryRun": False}, session_id)
    assert (found["restored"], sorted(one["path"] for one in found["conflicts"])) == ([], hidden)
    for name, path in zip((hidden[0], paths[1].name), paths, strict=True):
        done = await client.ask("restore_files", {"force": [name], "dryRun": False}, session_id)
        assert [file["path"] for file in done["restored"]] == [f"{path.name[:2]}[REDACTED]"]
        assert not path.exists()


async def test_an_approval_says_what_is_not_covered(client: WireClient, daemon: Daemon) -> None:
    heavy = daemon.workspace / "node_modules"
    heavy.mkdir()
    for number in range(2001):
        (heavy / str(number)).touch()
    session_id = await start(client, daemon)
    await send(client, session_id, "fail")
    asked = await client.wait_for("approval_required")
    assert "node_modules/" in asked["payload"]["details"]["uncovered"]
    await decide(client, asked)
    await client.wait_for("run_complete")
    [found] = await changed(client, session_id)
    assert "node_modules/" in found["payload"]["uncovered"]
    assert "node_modules/" in (await client.ask("list_changes", {}, session_id))["uncovered"]


async def test_a_file_that_was_changed_since_is_listed_as_a_conflict(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "fail")
    [listed] = (await client.ask("list_changes", {"all": True}, session_id))["files"]
    assert (listed["path"], listed.get("conflict")) == ("part.txt", None)
    (daemon.workspace / "part.txt").write_text("mine")
    [listed] = (await client.ask("list_changes", {"all": True}, session_id))["files"]
    assert listed["conflict"] == "it was changed since"


async def test_what_an_undo_with_conflicts_restored_is_no_conflict_of_the_next(
    client: WireClient, daemon: Daemon
) -> None:
    first, second = (daemon.workspace / f"{name}.txt" for name in ("first", "second"))
    first.write_text("mine\n")
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "one")
    await run(client, session_id, "two")
    second.write_text("edited\n")
    partial = await client.ask("restore_files", {"dryRun": False}, session_id)
    assert (names(partial["restored"]), first.read_text()) == ([("first.txt", "modified")], "ONE\n")
    listed = (await client.ask("list_changes", {"all": True}, session_id))["files"]
    assert [(file["path"], "conflict" in file) for file in listed] == [("first.txt", False), ("second.txt", True)]
    rest = await client.ask("restore_files", {"all": True, "dryRun": False}, session_id)
    assert [one["path"] for one in rest["conflicts"]] == ["second.txt"]
    assert (first.read_text(), second.read_text()) == ("mine\n", "edited\n")
    for content in ("ONE\n", "ONE\nTWO\n"):
        await client.ask("restore_files", {"redo": True, "dryRun": False}, session_id)
        assert first.read_text() == content
    first.write_text("edited\n")
    await client.ask("restore_files", {"all": True, "dryRun": False}, session_id)
    assert first.read_text() == "edited\n"


async def test_a_run_of_which_a_call_was_undone_can_be_undone(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    run_id = await run(client, session_id, "both")
    _, second = await changed(client, session_id)
    call = second["payload"]["callId"]
    await client.ask("restore_files", {"callId": call, "dryRun": False}, session_id)
    done = await client.ask("restore_files", {"runId": run_id, "dryRun": False}, session_id)
    assert (done["conflicts"], (daemon.workspace / "in").exists()) == ([], False)
    listed = await client.ask("list_changes", {"runId": run_id}, session_id)
    assert sorted(names(listed["files"])) == [("a.txt", "deleted"), ("in/here/b.txt", "added")]


async def test_a_long_diff_is_available_in_full(client: WireClient, daemon: Daemon) -> None:
    session_id = await start(client, daemon, approvalPolicy="all")
    await run(client, session_id, "long")
    [file] = (await client.ask("list_changes", {"diff": True}, session_id))["files"]
    assert "the diff is cut here" in file["diff"]
    assert len(file["diff"]) < 40_000
    text = ""
    while not text.endswith("+20000\n"):
        part = await client.ask("read_blob", {"blob": file["blob"], "offset": len(text)}, session_id)
        assert part["text"]
        text += part["text"]
    assert text.startswith("--- /dev/null\n+++ long.txt\n@@ -0,0 +1,20000 @@\n+1\n")
    assert text.count("\n") == 20003
    other = await start(client, daemon)
    with pytest.raises(ErrorResponse, match="unknown blob"):
        await client.ask("read_blob", {"blob": file["blob"]}, other)


async def test_sessions_in_one_directory_learn_of_each_other(client: WireClient, daemon: Daemon) -> None:
    first, second = [await start(client, daemon, approvalPolicy="all") for _ in range(2)]
    await send(client, first, "wait")
    await asyncio.to_thread(wait_until, (daemon.workspace / "waited").exists, "the first command to wait")
    await run(client, second, "fail")
    (daemon.workspace / "go").touch()
    await client.wait_for("run_complete")
    [of_first] = await changed(client, first)
    [of_second] = await changed(client, second)
    assert of_first["payload"]["overlaps"] == [second]
    assert of_second["payload"]["overlaps"] == [first]
    assert names(of_second["payload"]["files"])[0][0] == "part.txt"
