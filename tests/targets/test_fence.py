"""The fence on a target: a node that lost a session starts nothing there any more, however late it comes."""

import asyncio
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.targets.launchers import LocalLauncher
from buddy.targets.remote import Remote


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def target(fence: str) -> Remote:
    made = Remote(LocalLauncher())
    made.fence = fence
    return made


async def run(remote: Remote, command: str, place: Path, nonce: str) -> int:
    async def ignore(_stream: str, _chunk: bytes) -> None: ...

    return (await remote.run(command, cwd=str(place), nonce=nonce, on_output=ignore)).exit_code


async def test_nothing_starts_under_an_old_epoch(tmp_path: Path) -> None:
    old, new = target("sess_1:1"), target("sess_1:2")
    assert await run(old, "echo one >> ledger", tmp_path, "n1") == 0
    await new.kill_orphans("n2")
    with pytest.raises(ToolError, match="another node has the session"):
        await run(old, "echo two >> ledger", tmp_path, "n2")
    assert await run(new, "echo three >> ledger", tmp_path, "n3") == 0
    assert await run(target("sess_2:1"), "echo four >> ledger", tmp_path, "n4") == 0
    assert (tmp_path / "ledger").read_text().split() == ["one", "three", "four"]


async def test_the_first_command_of_a_new_owner_raises_the_epoch(tmp_path: Path) -> None:
    assert await run(target("sess_1:3"), "true", tmp_path, "n1") == 0
    with pytest.raises(ToolError):
        await run(target("sess_1:2"), "echo late >> ledger", tmp_path, "n2")
    assert not (tmp_path / "ledger").exists()


async def test_what_runs_is_ended_before_the_fence_is_up(tmp_path: Path) -> None:
    old, new = target("sess_1:1"), target("sess_1:2")
    running = asyncio.create_task(run(old, "echo begun >> ledger; sleep 600; echo after >> ledger", tmp_path, "n1"))
    async with asyncio.timeout(60):
        while not (tmp_path / "ledger").exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.02)
    assert await new.kill_orphans("n1") >= 1
    assert await running != 0
    assert (tmp_path / "ledger").read_text().split() == ["begun"]


async def test_without_a_fleet_nothing_is_written(tmp_path: Path) -> None:
    assert await run(target(""), "true", tmp_path, "n1") == 0
    assert not (tmp_path / ".local").exists()


async def test_a_command_does_not_keep_the_lock_of_its_call(tmp_path: Path) -> None:
    old, new = target("sess_1:1"), target("sess_1:2")
    assert await run(old, "nohup sleep 20 >/dev/null 2>&1 & echo $! > pid", tmp_path, "n1") == 0
    assert not (tmp_path / ".local/state/buddy/fences/n1.lock").exists()
    await new.kill_orphans("n1")
