"""Reading outside the workspace: asked with the real path, read exactly there, and never for credentials."""

from pathlib import Path
from typing import Any

import pytest

from buddy.protocol.events import ApprovalReceived, ApprovalRequired, RunComplete, ToolClaimed, ToolResult
from buddy.protocol.requests import SubmitApproval
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.runtime import RuntimeClient, checked_host


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A workspace, and a directory beside it."""
    work, beside, home = tmp_path / "work", tmp_path / "beside", tmp_path / "home"
    for folder in (work, beside, home / ".ssh"):
        folder.mkdir(parents=True)
    (beside / "notes.txt").write_text("first\nsecond\n")
    (home / ".ssh" / "id_ed25519").write_text("private")
    monkeypatch.setenv("HOME", str(home))
    return work, beside


def wants(tool: str, **args: Any) -> StepModel:
    return StepModel(asks_for(call(tool, args)), answer("done"))


async def decide(client: RuntimeClient, run_id: str, verdict: str = "approve") -> ApprovalRequired:
    asked = await client.wait_for(ApprovalRequired)
    decision = "approve" if verdict == "approve" else "deny"
    await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, decision))
    return asked


@pytest.mark.parametrize(
    ("tool", "args", "where", "text"),
    [
        ("read_file", {"path": "../beside/notes.txt"}, "notes.txt", "first\nsecond"),
        ("read_file", {"path": "{beside}/notes.txt", "offset": 2}, "notes.txt", "second"),
        ("read_file", {"path": "link/notes.txt"}, "notes.txt", "first\nsecond"),
        ("list_files", {"path": "{beside}"}, "", "notes.txt (13 bytes)"),
        ("grep", {"path": "{beside}", "pattern": "sec"}, "", "{beside}/notes.txt:2:second"),
        ("grep", {"path": "{beside}/notes.txt", "pattern": "sec"}, "notes.txt", "{beside}/notes.txt:2:second"),
        ("glob", {"path": "{beside}", "pattern": "*.txt"}, "", "{beside}/notes.txt"),
    ],
)
async def test_a_person_decides_about_the_real_path(
    places: tuple[Path, Path], tool: str, args: dict[str, Any], where: str, text: str
) -> None:
    work, beside = places
    (work / "link").symlink_to(beside)
    named = {name: value.format(beside=beside) if isinstance(value, str) else value for name, value in args.items()}
    async with checked_host(work, wants(tool, **named)) as host, host.client() as client:
        await client.start(plan=True)  # which only reads
        asked = await decide(client, await client.send("go"))
        assert (asked.kind, asked.details["path"], asked.details["outside"]) == ("tool", str(beside / where), True)
        assert asked.title.endswith("outside the workspace")
        await client.wait_for(RunComplete)
        assert [result.text for result in client.bodies(ToolResult)] == [text.format(beside=beside)]
        assert not client.bodies(ToolClaimed)


async def test_a_denied_file_is_not_read(places: tuple[Path, Path]) -> None:
    work, beside = places
    async with checked_host(work, wants("read_file", path=str(beside / "notes.txt"))) as host, host.client() as client:
        await client.start()
        await decide(client, await client.send("go"), "deny")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert "first" not in client.bodies(ToolResult)[0].text


@pytest.mark.parametrize("policy", ["none", "auto"])
async def test_without_a_person_it_is_denied(places: tuple[Path, Path], policy: str) -> None:
    work, beside = places
    model = wants("read_file", path=str(beside / "notes.txt"))
    async with checked_host(work, model) as host, host.client("headless") as client:
        await client.start("headless", approval_policy=policy)
        await client.send("go")
        ended = await client.wait_for(RunComplete)
        assert ended.outcome == ("denied" if policy == "none" else "success")
        assert [(body.decision, body.by) for body in client.bodies(ApprovalReceived)] == [("deny", "policy")]
        assert "first" not in client.bodies(ToolResult)[0].text


async def test_a_link_that_takes_the_place_of_what_was_approved_is_not_followed(places: tuple[Path, Path]) -> None:
    work, beside = places
    (work / "own.txt").write_text("other")
    async with checked_host(work, wants("read_file", path=str(beside / "notes.txt"))) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        beside.rename(beside.with_name("moved"))
        other = beside.with_name("other")
        other.mkdir()
        (other / "notes.txt").write_text("swapped")
        beside.symlink_to(other)
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
        again = await decide(client, run_id, "deny")
        assert again.details["path"] == str(other / "notes.txt")
        await client.wait_for(RunComplete)
        assert "swapped" not in client.bodies(ToolResult)[0].text


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("read_file", {"path": "{home}/.ssh/id_ed25519"}),
        ("read_file", {"path": "state/buddy.db"}),
        ("read_file", {"path": "../link"}),
        ("list_files", {"path": "{home}/.ssh"}),
        ("grep", {"path": "{home}", "pattern": "private"}),
        ("glob", {"path": "/", "pattern": "**"}),
        ("read_file", {"path": "/proc/self/environ"}),
    ],
)
async def test_credentials_are_refused_without_a_question(
    places: tuple[Path, Path], tool: str, args: dict[str, str]
) -> None:
    work, _ = places
    home = work.parent / "home"
    (work.parent / "link").symlink_to(home / ".ssh" / "id_ed25519")
    named = {name: value.format(home=home) for name, value in args.items()}
    inner = work / "inner"
    inner.mkdir()
    async with checked_host(work, wants(tool, **named)) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        assert not client.bodies(ApprovalRequired)
        assert client.bodies(ToolResult)[0].is_error


async def test_a_grant_covers_the_file_that_was_shown_and_no_other(places: tuple[Path, Path]) -> None:
    work, beside = places
    (beside / "more.txt").write_text("more")
    path = str(beside / "notes.txt")
    model = StepModel(
        asks_for(call("read_file", {"path": path})),
        asks_for(call("read_file", {"path": path, "offset": 2})),
        asks_for(call("read_file", {"path": str(beside / "more.txt")})),
        answer("done"),
    )
    async with checked_host(work, model) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        granted = SubmitApproval(client.session_id, run_id, asked.approval_id, "approve", scope="session")
        await client.api.approve(granted)
        other = await decide(client, run_id, "deny")
        assert other.details["path"] == str(beside / "more.txt")
        await client.wait_for(RunComplete)
        assert [result.is_error for result in client.bodies(ToolResult)] == [False, False, True]
