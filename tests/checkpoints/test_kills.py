"""SIGKILL inside a checkpoint and inside a restore: the next process finishes it, and records that."""

from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints.trees import picture
from tests.harness.clients import read_log, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.processes import wait_until
from tests.harness.scripts import Reply, section, shell

MESS = "echo changed > one; rm two; mkdir -p new/deep; echo made > new/deep/file; ln -s one link; chmod 700 three"
SCRIPT: list[Reply] = [section("^mess", shell(MESS), {"text": "done"})]


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    daemon = Daemon(tmp_path, script=SCRIPT)
    for name in ("one", "two", "three"):
        (daemon.workspace / name).write_text(f"{name}\n")
    return daemon


async def make_mess(daemon: Daemon) -> str:
    async with wire_client(daemon) as client:
        session_id = await start(client, daemon, approvalPolicy="all")
        await send(client, session_id, "mess")
        await client.wait_for("run_complete")
    return session_id


async def events(daemon: Daemon, session_id: str, kind: str) -> list[dict[str, Any]]:
    async with wire_client(daemon) as client:
        return [event["payload"] for event in await read_log(client, session_id) if event["type"] == kind]


@pytest.mark.slow
@pytest.mark.parametrize(
    "point", ["restore.recorded:1", "restore.step:3", "restore.written:1", "restore.finished:1", "commit.after:2"]
)
async def test_a_restore_that_is_killed_is_finished(daemon: Daemon, point: str) -> None:
    before = picture(daemon.workspace)
    daemon.start()
    try:
        session_id = await make_mess(daemon)
        after = picture(daemon.workspace)
        daemon.stop()
        daemon.start(BUDDY_FAULT=f"{point}:kill")
        async with wire_client(daemon) as client:
            with pytest.raises((ConnectionError, EOFError)):
                await client.ask("restore_files", {"dryRun": False}, session_id)
        assert daemon.wait() == -9
        assert picture(daemon.workspace) != after or point in ("restore.recorded:1", "commit.after:2")
        daemon.start()
        if point == "commit.after:2":  # before the restore was recorded: nothing has happened
            assert picture(daemon.workspace) == after
            assert await events(daemon, session_id, "files_restored") == []
            return
        wait_until(lambda: picture(daemon.workspace) == before, "the files to be restored")
        [restored] = await events(daemon, session_id, "files_restored")
        assert (restored["recovered"], restored["by"]) == (True, "cli")
        async with wire_client(daemon) as client:
            await client.ask("restore_files", {"redo": True, "dryRun": False}, session_id)
        assert picture(daemon.workspace) == after
    finally:
        daemon.stop()


@pytest.mark.parametrize(
    "point", ["checkpoint.begun:1", "checkpoint.ending:1", "checkpoint.kept:2", "checkpoint.ended:1"]
)
async def test_a_checkpoint_that_is_killed_still_leads_back(daemon: Daemon, point: str) -> None:
    before = picture(daemon.workspace)
    daemon.start(BUDDY_FAULT=f"{point}:kill")
    try:
        with pytest.raises((ConnectionError, EOFError)):
            await make_mess(daemon)
        assert daemon.wait() == -9
        daemon.start()
        async with wire_client(daemon) as client:
            [row] = (await client.ask("list_sessions"))["sessions"]
            await client.ask("attach_session", {"sessionId": row["sessionId"], "lastSeenSeq": 0})
            await client.wait_for("run_complete")
            restored = await client.ask("restore_files", {"all": True, "dryRun": False}, row["sessionId"])
        assert restored["conflicts"] == []
        assert picture(daemon.workspace) == before
    finally:
        daemon.stop()
