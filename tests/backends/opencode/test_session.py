"""OpenCode in a session: what is shown, asked about and recorded."""

from pathlib import Path

from backends.casts import CASTS, scene
from buddy.protocol.events import ApprovalRequired, AssistantMessage, AssistantToken, Error, RunComplete, WarningRaised
from buddy.protocol.requests import SubmitApproval

OPENCODE = next(cast for cast in CASTS if cast.name == "opencode")


async def test_a_permission_request_to_write_shows_the_real_path(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (work / "link").symlink_to(outside)
    async with scene(OPENCODE, work) as home, home.client() as guest:
        await guest.start()
        run_id = await guest.send("write link/new.txt")
        asked = await guest.until(ApprovalRequired)
        assert asked.kind == "write"
        assert asked.details["path"] == str(outside / "new.txt")
        assert "+new" in asked.details["diff"]
        await guest.client.approve(SubmitApproval(guest.session_id, run_id, asked.approval_id, "approve", None))
        assert (await guest.until(RunComplete)).outcome == "success"
        assert (outside / "new.txt").read_text() == "new\n"


async def test_text_that_ends_after_a_call_began_is_shown_once(tmp_path: Path) -> None:
    async with scene(OPENCODE, tmp_path) as home, home.client() as guest:
        await guest.start()
        await guest.send("between let me see")
        assert (await guest.until(RunComplete)).outcome == "success"
        assert "".join(body.text for body in guest.bodies(AssistantToken)) == "let me see"
        assert [body.text for body in guest.bodies(AssistantMessage) if body.text] == ["let me see"]


async def test_calls_made_without_asking_and_refusals_are_recorded(tmp_path: Path) -> None:
    async with scene(OPENCODE, tmp_path) as home, home.client() as guest:
        await guest.start()
        await guest.send("unasked > emptied")
        await guest.until(RunComplete)
        assert any("without asking" in body.message for body in guest.bodies(WarningRaised))
        (tmp_path / "opencode.json").write_text("{}")
        await guest.start()
        await guest.send("say anything")
        assert (await guest.until(RunComplete)).outcome == "failed"
        assert "buddy trust" in (guest.bodies(Error)[-1].detail or "")
