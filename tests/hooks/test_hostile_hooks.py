"""Scripts that never answer, leave processes behind, or die with the daemon; nothing of them stays, nothing opens."""

import asyncio
from pathlib import Path

import pytest

from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.protocol.events import ApprovalRequired, HookFinished, RunComplete, ToolResult
from buddy.protocol.requests import SubmitApproval
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.processes import wait_until
from tests.harness.runtime import checked_host, crash
from tests.hooks.hooking import deciding, hook, hooked_session, user_hooks


def running(pid_file: Path) -> bool:
    """Whether the process whose id is in the file still runs."""
    return is_running(pid_file.read_text().strip())


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def wait_for_file(path: Path) -> None:
    """Until something is written to it: a shell makes the file first."""
    await asyncio.to_thread(wait_until, lambda: path.exists() and path.read_text().endswith("\n"), f"{path} is written")


async def test_a_slow_hook_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreToolUse=hook("sleep 60 & echo $! > pid; wait", timeout=0.3))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        await session.client.send("go")
        asked = await session.decide("deny")
        assert "no answer within 0.3 s" in str(asked.details["why"])
        assert not running(tmp_path / "pid")
        await session.client.wait_for(RunComplete)
        assert not (tmp_path / "made").exists()
        await session.assert_replayed()


async def test_a_fork_that_keeps_the_pipe_open_does_not_hold_the_call(tmp_path: Path) -> None:
    fork = "setsid sleep 60 & echo $! > pid; " + deciding("deny", "no")
    user_hooks(tmp_path, PreToolUse=hook(fork))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        await session.say()
        assert session.verdicts() == ["deny"]
        assert not running(tmp_path / "pid")


async def test_a_cancel_ends_a_hook(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreToolUse=hook("echo $$ > pid; exec sleep 60"))
    async with hooked_session(tmp_path, asks_for(shell("touch made"))) as session:
        run_id = await session.client.send("go")
        await wait_for_file(tmp_path / "pid")
        await session.client.api.cancel(session.client.session_id, run_id)
        assert (await session.client.wait_for(RunComplete)).outcome == "cancelled"
        assert not running(tmp_path / "pid")
        assert session.finished() == []
        await session.assert_replayed()


async def test_secrets_of_the_daemon_do_not_reach_a_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-key-1234567890")
    user_hooks(tmp_path, PreToolUse=hook("env > seen; exit 0"))
    async with hooked_session(tmp_path, asks_for(shell("true")), answer()) as session:
        await session.say()
    assert "sk-very-secret" not in (tmp_path / "seen").read_text()
    assert "HOME=" in (tmp_path / "seen").read_text()


async def test_what_a_hook_prints_is_scrubbed(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    user_hooks(tmp_path, PreToolUse=hook(f"echo token {secret} >&2; exit 2"))
    async with hooked_session(tmp_path, asks_for(shell("true")), answer()) as session:
        await session.say()
        assert secret not in str(session.client.received)
        assert secret not in str(session.model.received)


async def test_a_broken_file_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "hooks.json").write_text('{"hooks": {')
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        await session.client.send("go")
        asked = await session.decide("deny")
        assert "not valid JSON" in str(asked.details["why"])
        await session.client.wait_for(RunComplete)
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "entry",
    [
        hook("true", "(["),
        {"hooks": [{"type": "prompt", "prompt": "ok?"}]},
        {"hooks": "x"},
        {"hooks": [{"type": "command"}]},
        "text",
        hook("true", timeout="soon"),
    ],
)
async def test_an_entry_that_cannot_be_used_opens_nothing(tmp_path: Path, entry: object) -> None:
    user_hooks(tmp_path, PreToolUse=[entry])  # pyright: ignore[reportArgumentType] - wrong on purpose
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer(), mode="headless") as session:
        await session.say()
        assert session.verdicts() == ["failed"]
        assert not (tmp_path / "made").exists()


async def test_after_a_crash_during_a_hook_it_is_asked_again(tmp_path: Path) -> None:
    script = "echo $$ >> pids; test $(wc -l < pids) -gt 1 || exec sleep 60; exit 2"
    user_hooks(tmp_path, PreToolUse=hook(script))
    log, model = MemoryLog(unix_ms), StepModel(asks_for(shell("touch made")), answer())
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        session_id = await client.start(approval_policy="all")
        await client.send("go")
        await wait_for_file(tmp_path / "pids")
        await crash(host, session_id)
        await host.runtime.sessions.open(session_id)
        complete = await client.wait_for(RunComplete)
        assert complete.outcome == "success"
        assert not (tmp_path / "made").exists()
        assert [body.verdict for body in client.bodies(HookFinished)] == ["deny"]
        for pid in (tmp_path / "pids").read_text().split():
            assert not is_running(pid)


@pytest.mark.parametrize("verdict", ["deny", "ask", "changed"])
async def test_after_a_crash_the_recorded_answer_counts(tmp_path: Path, verdict: str) -> None:
    """The call waited for a person, or for its turn, when the process died; its hook is not run again."""
    changes = deciding("ask", updatedInput={"command": "touch changed"})
    user_hooks(tmp_path, PreToolUse=hook("echo x >> runs; " + (changes if verdict == "changed" else deciding(verdict))))
    log, model = MemoryLog(unix_ms), StepModel(asks_for(shell("touch made")), answer())
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        session_id = await client.start(approval_policy="all")
        await client.send("go")
        if verdict == "deny":
            await client.wait_for(HookFinished)
        else:
            await client.wait_for(ApprovalRequired)
        await crash(host, session_id)
        await host.runtime.sessions.open(session_id)
        if verdict != "deny":
            asked = client.bodies(ApprovalRequired)[0]
            run_id = client.received[-1].run_id or ""
            await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(ToolResult)
        assert (tmp_path / "runs").read_text() == "x\n"
        assert (tmp_path / "made").exists() == (verdict == "ask")
        assert (tmp_path / "changed").exists() == (verdict == "changed")
