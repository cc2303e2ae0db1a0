"""What other agents do to the files: attributed to their calls as far as they report them, and undone."""

from collections.abc import AsyncIterator
from pathlib import Path

from buddy.backends.external.contract import AgentEvent, Delta, ToolEnded, ToolStarted
from buddy.backends.external.own import FunctionAgent, Turn
from buddy.daemon.runtime import RuntimeOverrides
from buddy.protocol.events import FilesChanged, FilesRestored, RunComplete
from buddy.protocol.file_requests import RestoreFiles, RestoreFilesReply
from tests.harness.runtime import scripted_host


async def quiet_worker(turn: Turn) -> AsyncIterator[AgentEvent]:
    """Reports one call, and does more without a word."""
    folder = Path(turn.cwd)
    yield ToolStarted("call-1", "edit", {})
    (folder / "reported").write_text("one\n")
    yield ToolEnded("call-1", "edited")
    (folder / "kept").unlink()
    yield Delta(f"heard {turn.text}")


async def test_changes_of_another_agent_are_recorded_and_undone(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "kept").write_text("mine\n")
    agent = FunctionAgent("worker", quiet_worker)
    overrides = RuntimeOverrides(agents={"worker": lambda: agent})
    async with scripted_host(work, overrides=overrides) as host, host.client() as client:
        session_id = await client.start(agent_runtime="worker", approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        found = client.bodies(FilesChanged)
        assert {(file.path, file.change) for body in found for file in body.files} == {
            ("reported", "added"),
            ("kept", "deleted"),
        }
        reply = await client.api.request(RestoreFiles(dry_run=False), RestoreFilesReply, session_id)
        assert reply.conflicts == ()
        await client.wait_for(FilesRestored)
    assert {path.name: path.read_text() for path in work.iterdir() if path.is_file()} == {"kept": "mine\n"}
