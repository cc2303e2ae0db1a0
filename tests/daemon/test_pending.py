"""Pending approvals from the shell: listed with the time that is left, shown, and decided by id."""

import json
import re
from pathlib import Path

import pytest

from tests.harness.clients import attach, decide, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.processes import Finished
from tests.harness.scripts import section, shell

SCRIPT = [section("^make", shell("echo made >> made.txt"), {"text": "made"})]


def listed(daemon: Daemon, *words: str) -> str:
    done = daemon.run(*words)
    assert done.code == 0, done
    return done.out


def refused(done: Finished, code: int = 64) -> str:
    assert (done.code, done.out) == (code, ""), done
    return done.err.splitlines()[0]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["interactive", "headless"])
async def test_every_list_shows_the_time_that_is_left(tmp_path: Path, mode: str) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon, mode=mode, approvalPolicy="ask")
            await send(client, session_id, "make")
            asked = await client.wait_for("approval_required")
            lists = [
                listed(daemon, "approvals", "list"),
                listed(daemon, "ps"),
                listed(daemon, "session", "list", "--all"),
                listed(daemon, "approvals", "show", asked["payload"]["approvalId"]),
            ]
            counts = [re.search("expires in (5m 00|4m ..)s", text) is not None for text in lists]
            assert counts == [mode == "headless"] * 4, lists
            expires_at = json.loads(listed(daemon, "ps", "--json"))[0]["expiresAt"]
            assert expires_at == (asked["payload"]["expiresAt"] if mode == "headless" else None)


async def test_an_approval_is_decided_from_the_shell_by_a_part_of_its_id(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon)
            await send(client, session_id, "make")
            approval_id = (await client.wait_for("approval_required"))["payload"]["approvalId"]
            shown = daemon.run("approvals", "show", approval_id)
            assert "$ echo made >> made.txt" in shown.out
            assert refused(daemon.run("approvals", "approve", "appr_NOPE"), 1) == (
                "error: no pending approval 'appr_NOPE'"
            )
            done = daemon.run("approvals", "approve", approval_id[-6:].lower())
            assert (done.code, done.out) == (0, "")
            assert "$ echo made >> made.txt" in done.err
            assert f"approved {approval_id}" in done.err
            received = await client.wait_for("approval_received")
            assert (received["payload"]["decision"], received["payload"]["by"]) == ("approve", "cli")
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
            assert refused(daemon.run("approvals", "approve", approval_id), 1).startswith("error: no pending approval")
        assert (daemon.workspace / "made.txt").read_text() == "made\n"


async def test_a_denial_from_the_shell_can_say_why_or_end_the_run(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon)
            for flags, outcome in ((["--comment", "use touch"], "success"), (["--stop"], "denied")):
                await send(client, session_id, "make")
                asked = (await client.wait_for("approval_required"))["payload"]["approvalId"]
                assert daemon.run("approvals", "deny", asked, *flags).code == 0
                assert (await client.wait_for("run_complete"))["payload"]["outcome"] == outcome
        assert not (daemon.workspace / "made.txt").exists()


@pytest.mark.slow
async def test_the_question_of_a_killed_daemon_is_answered_from_the_shell(tmp_path: Path) -> None:
    """Nobody is attached: the command starts the daemon, and the run continues in it."""
    daemon = Daemon(tmp_path, script=SCRIPT)
    daemon.start()
    async with wire_client(daemon) as client:
        session_id = await start(client, daemon)
        await send(client, session_id, "make")
        approval_id = (await client.wait_for("approval_required"))["payload"]["approvalId"]
    daemon.kill()
    assert approval_id in daemon.run("approvals", "list").out
    try:
        assert daemon.run("approvals", "approve", approval_id).code == 0
        async with wire_client(daemon) as client:
            await attach(client, session_id)
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
        assert (daemon.workspace / "made.txt").read_text() == "made\n"
    finally:
        assert daemon.run("daemon", "stop").code == 0


@pytest.mark.slow
async def test_attach_shows_when_a_question_expires(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon, mode="headless", approvalPolicy="ask")
            await send(client, session_id, "make")
            asked = await client.wait_for("approval_required")
            with daemon.spawn("attach", session_id) as watching:
                assert watching.process.stderr is not None
                # A millisecond may have passed between the question and its event.
                assert any(line in (b"expires in 5m 00s\n", b"expires in 4m 59s\n") for line in watching.process.stderr)
            await decide(client, asked)


@pytest.mark.slow
async def test_a_timeout_holds_without_its_client_and_after_a_crash(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT) as daemon:
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon)
            run_id = await send(client, session_id, "make")
            await client.wait_for("approval_required")
            for seconds in (3600, 4):  # the latest counts
                payload = {"sessionId": session_id, "runId": run_id, "reason": "timeout", "afterSeconds": seconds}
                assert await client.ask("cancel_run", payload, session_id) == {"accepted": True}
            scheduled = await client.wait_for("cancel_scheduled")
            assert scheduled["payload"]["reason"] == "timeout"
        daemon.kill()
        daemon.start()
        async with wire_client(daemon) as client:
            await attach(client, session_id)
            stopping = await client.wait_for("run_cancelling")
            assert (stopping["payload"]["reason"], stopping["payload"]["by"]) == ("timeout", "timeout")
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "cancelled"
        assert not (daemon.workspace / "made.txt").exists()
