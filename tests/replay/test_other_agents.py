"""Runs of another agent, played again without it."""

import asyncio
from pathlib import Path

import pytest

from backends.casts import CASTS, Cast, scene
from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.protocol.events import ApprovalRequired, AssistantToken, RunComplete
from buddy.protocol.requests import SubmitApproval
from buddy.protocol.shapes import BudgetLimits, Criterion, RunOptions
from buddy.replay.verify import Recording, Verdict, verify
from harness import Guest, House
from replay.test_verify import recorded
from sessions.stage import crash

DROID = next(cast for cast in CASTS if cast.name == "droid")
OTHERS = pytest.mark.parametrize("cast", [cast for cast in CASTS if cast.runtime], ids=lambda cast: cast.name)


async def say(guest: Guest, text: str, decision: str = "", options: RunOptions | None = None) -> RunComplete:
    run_id = await guest.send(text, options=options)
    if decision:
        asked = await guest.until(ApprovalRequired)
        verdict = "approve" if decision == "approve" else "deny"
        await guest.client.approve(SubmitApproval(guest.session_id, run_id, asked.approval_id, verdict, "use tea"))
    return await guest.until(RunComplete, lambda complete: complete.run_id == run_id)


async def assert_same(home: House, session_id: str) -> Recording:
    session = home.runtime.sessions.live(session_id)
    if session is not None:
        await session.journal.commit()
    recording = await recorded(home.runtime.log, session_id)
    verdict = await asyncio.to_thread(verify, recording)
    assert verdict == Verdict(len(recording.events))
    return recording


@OTHERS
async def test_what_it_said_and_did_comes_again_without_it(cast: Cast, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("contents\n" * 4000)
    async with scene(cast, tmp_path) as home, home.client() as guest:
        await guest.start()
        await say(guest, "say one two three")
        await say(guest, "look notes.txt")
        await say(guest, "run echo made >> made", "approve")
        await say(guest, "run touch forbidden", "deny")
        await say(guest, "run echo by policy", options=RunOptions(approval_policy="all"))
        (tmp_path / "notes.txt").unlink()
        await assert_same(home, guest.session_id)
    assert (tmp_path / "made").read_text() == "made\n"


@OTHERS
async def test_its_failures_and_cancels_come_again(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("wait")
        await guest.until(AssistantToken)
        await guest.client.cancel(guest.session_id, run_id)
        await guest.until(RunComplete)
        await say(guest, "say again")
        assert (await say(guest, "die")).outcome == "failed"
        await say(guest, "say last")
        await assert_same(home, guest.session_id)


@OTHERS
async def test_a_headless_run_that_is_denied_or_over_budget_comes_again(cast: Cast, tmp_path: Path) -> None:
    async with scene(cast, tmp_path) as home, home.client("headless") as guest:
        await guest.start("headless")
        assert (await say(guest, "run touch forbidden")).outcome == "denied"
        few = RunOptions(budget=BudgetLimits(max_tokens=5))
        assert (await say(guest, "say much", options=few)).reason == "budget_exceeded"
        none = RunOptions("all", BudgetLimits(max_tool_calls=1))
        assert (await say(guest, "run echo one", options=none)).outcome == "success"
        await guest.send("say done", accept=[Criterion("exists", "test -f never")])
        await guest.until(RunComplete)
        await assert_same(home, guest.session_id)


@OTHERS
async def test_a_crash_and_what_came_after_it_come_again(cast: Cast, tmp_path: Path) -> None:
    log, ledger = MemoryLog(unix_ms), tmp_path / "ledger.txt"
    async with scene(cast, tmp_path, log) as home, home.client() as guest:
        session_id = await guest.start()
        run_id = await guest.send("run echo once >> ledger.txt; exec sleep 1000")
        asked = await guest.until(ApprovalRequired)
        await guest.client.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        while not ledger.exists():  # noqa: ASYNC110 - a file has no event
            await asyncio.sleep(0.01)
        await crash(home, session_id)
        async with scene(cast, tmp_path, log) as after, after.client() as later:
            await after.runtime.sessions.open(session_id)
            await later.client.attach(session_id)
            await later.until(RunComplete)
            later.session_id = session_id
            await say(later, "say more")
            await assert_same(after, session_id)


@pytest.mark.parametrize(
    "text", ["fail no access token", "both echo one | echo two", "patch a.py b.py", "question why?"]
)
async def test_what_only_droid_does_comes_again(tmp_path: Path, text: str) -> None:
    async with scene(DROID, tmp_path) as home, home.client() as guest:
        await guest.start(approval_policy="all")
        await say(guest, text)
        await assert_same(home, guest.session_id)


async def test_a_changed_recording_of_it_is_found_out(tmp_path: Path) -> None:
    async with scene(DROID, tmp_path) as home, home.client() as guest:
        await guest.start()
        await say(guest, "run echo made", "approve")
        recording = await assert_same(home, guest.session_id)
    events = [event for event in recording.events if event.type != "tool_claimed"]
    events = [
        type(event)(event.session_id, at, event.ts, event.type, event.payload, event.run_id)
        for at, event in enumerate(events, 1)
    ]
    verdict = await asyncio.to_thread(verify, Recording(tuple(events), recording.blobs))
    assert verdict.difference is not None
    assert "tool_claimed instead of" in verdict.difference.message
