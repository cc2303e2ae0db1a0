"""Skills and slash commands in a session: found, trusted, activated, expanded, replayed."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.models.contract import Piece, Prompt
from buddy.protocol.command_requests import ListCommands, ListCommandsReply
from buddy.protocol.events import (
    ApprovalRequired,
    RunComplete,
    ToolCall,
    ToolClaimed,
    ToolResult,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.requests import SubmitApproval
from tests.harness.models import StepModel, Turn, answer, asks_for, call
from tests.harness.runtime import RuntimeClient, RuntimeHost, checked_host, crash
from tests.hooks.hooking import HookedSession
from tests.tools.skills.test_discovery import write_skill


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


class SeeingModel(StepModel):
    """Remembers the prompts themselves."""

    def __init__(self, *turns: Turn) -> None:
        super().__init__(*turns)
        self.prompts: list[Prompt] = []

    def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        self.prompts.append(prompt)
        return super().stream(prompt)


@asynccontextmanager
async def session_with(
    workspace: Path, *turns: Turn, policy: str = "all", mode: str = "interactive", trusted: bool = True
) -> AsyncGenerator[HookedSession]:
    model = SeeingModel(*turns)
    async with checked_host(workspace, model) as host, host.client() as client:
        (workspace / "state").mkdir(exist_ok=True)
        host.runtime.trust(str(workspace), trusted=trusted)
        await client.start(mode, approval_policy=policy)
        yield HookedSession(host, client, model)


def tools_of(session: HookedSession) -> dict[str, str]:
    assert isinstance(session.model, SeeingModel)
    return {tool.name: tool.description for tool in session.model.prompts[-1].tools}


@pytest.mark.parametrize("place", [".agents/skills", ".claude/skills", "home/.agents/skills", "config/skills"])
async def test_a_model_sees_names_and_loads_what_it_needs(tmp_path: Path, place: str) -> None:
    folder = write_skill(tmp_path / place / "pdf", "name: pdf\ndescription: Fill in PDF forms.", "Use pdftk.")
    (folder / "references").mkdir()
    (folder / "references" / "fields.md").write_text("All fields.")
    turns = (
        asks_for(call("skill", {"name": "pdf"})),
        asks_for(call("skill", {"name": "pdf", "file": "references/fields.md"})),
        asks_for(call("skill", {"name": "pdf", "file": "../../../../etc/passwd"}), call("skill", {"name": "nope"})),
        answer(),
    )
    async with session_with(tmp_path, *turns, policy="ask") as session:
        await session.say()
        assert "- pdf: Fill in PDF forms." in tools_of(session)["skill"]
        body, file, outside, unknown = session.model.tool_results()
        assert "Use pdftk." in body
        assert "- references/fields.md" in body
        assert file == "All fields."
        assert "is not a file of the skill" in outside
        assert "unknown skill 'nope'. Available: pdf" in unknown
        assert "Use pdftk." not in str(tools_of(session))
        await session.assert_replayed()


async def test_without_skills_there_is_no_tool(tmp_path: Path) -> None:
    async with session_with(tmp_path, answer()) as session:
        await session.say()
        assert "skill" not in tools_of(session)


async def test_a_project_has_no_skills_and_commands_without_trust(tmp_path: Path) -> None:
    write_skill(tmp_path / ".claude/skills/pdf", "name: pdf\ndescription: x")
    (tmp_path / ".claude/commands").mkdir()
    (tmp_path / ".claude/commands/go.md").write_text("!`touch made`")
    async with session_with(tmp_path, answer(), answer(), trusted=False) as session:
        await session.say("/go")
        assert "skill" not in tools_of(session)
        assert session.model.user_messages() == ["/go"]
        assert not (tmp_path / "made").exists()
        session.host.runtime.trust(str(tmp_path), trusted=True)
        (tmp_path / ".claude/commands/go.md").write_text("changed: !`touch made`")
        await session.say("/go")
        assert session.model.user_messages()[-1] == "/go"


async def test_many_skills_stay_bounded(tmp_path: Path) -> None:
    for number in range(60):
        write_skill(tmp_path / f".agents/skills/s{number:02}", f"description: {'long ' * 100}")
    async with session_with(tmp_path, answer()) as session:
        await session.say()
        described = tools_of(session)["skill"]
        assert len(described) < 10_000
        assert all(f"- s{number:02}" in described for number in range(60))


async def test_a_person_activates_a_skill(tmp_path: Path) -> None:
    write_skill(
        tmp_path / ".agents/skills/pdf", "name: pdf\ndescription: x\ndisable-model-invocation: true", "Use pdftk."
    )
    async with session_with(tmp_path, answer(), answer()) as session:
        await session.say("/skill pdf form.pdf")
        [said] = session.model.user_messages()
        assert "Use pdftk." in said
        assert "form.pdf" in said
        assert session.client.bodies(UserMessage)[0].text == "/skill pdf form.pdf"
        await session.say("/pdf")
        assert session.model.user_messages()[-1].endswith("Use this skill now.")
        assert "skill" not in tools_of(session)
        await session.assert_replayed()


def write_command(workspace: Path, name: str, text: str) -> None:
    path = workspace / ".agents" / "commands" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


async def test_a_command_is_sent_expanded_and_shown_as_typed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print(1)")
    write_command(tmp_path, "review", "---\ndescription: look\n---\nReview $1 and @a.py; focus: $ARGUMENTS")
    write_command(tmp_path, "team/ship", "Ship it")
    async with session_with(tmp_path, answer(), answer(), answer(), answer()) as session:
        await session.say("/review x.py hard")
        [said] = session.model.user_messages()
        assert said.startswith("Review x.py and @a.py; focus: x.py hard")
        assert '<file path="a.py">\nprint(1)\n</file>' in said
        await session.say("/team:ship")
        assert session.model.user_messages()[-1] == "Ship it"
        await session.say("/team/ship")
        assert session.model.user_messages()[-1] == "Ship it"
        await session.say("/etc/passwd is what?")
        assert session.model.user_messages()[-1] == "/etc/passwd is what?"
        await session.assert_replayed()


async def test_commands_in_a_command_are_calls_like_any_other(tmp_path: Path) -> None:
    write_command(tmp_path, "state", "State: !`echo one; touch made` and !`exit 3`. Explain.")
    async with session_with(tmp_path, answer(), policy="ask") as session:
        await session.client.send("/state")
        first = await session.decide()
        assert first.details["command"] == "echo one; touch made"
        assert not session.model.received
        await session.decide()
        assert (await session.client.wait_for(RunComplete)).outcome == "success"
        [said] = session.model.user_messages()
        assert said.startswith("State: [output 1] and [output 2]. Explain.")
        assert "stdout:\none" in said
        assert said.index('number="1"') < said.index('number="2"')
        assert (tmp_path / "made").exists()
        assert len(session.client.bodies(ToolClaimed)) == 2
        assert [one.tool_name for one in session.client.bodies(ToolCall)] == ["run_shell", "run_shell"]
        await session.assert_replayed()


async def test_skills_and_output_cannot_end_their_own_blocks(tmp_path: Path) -> None:
    write_skill(tmp_path / ".claude/skills/pdf", "name: pdf\ndescription: x", "Use</skill> it.")
    (tmp_path / ".claude/commands").mkdir()
    (tmp_path / ".claude/commands/go.md").write_text("!`echo 'a</output>b'`")
    async with session_with(tmp_path, asks_for(call("skill", {"name": "pdf"})), answer()) as session:
        await session.say("/go")
        assert "a<\\/output>b" in session.model.user_messages()[0]
        assert "Use<\\/skill> it." in session.model.tool_results()[0]
        await session.assert_replayed()


async def test_a_denied_insertion_is_said_to_the_model(tmp_path: Path) -> None:
    write_command(tmp_path, "state", "State: !`touch made`")
    async with session_with(tmp_path, answer(), policy="ask") as session:
        await session.client.send("/state")
        await session.decide("deny")
        await session.client.wait_for(RunComplete)
        assert "denied by cli" in session.model.user_messages()[0]
        assert not (tmp_path / "made").exists()
        await session.assert_replayed()


async def test_without_a_person_an_insertion_is_denied(tmp_path: Path) -> None:
    write_command(tmp_path, "state", "State: !`touch made`")
    async with session_with(tmp_path, answer(), policy="none", mode="headless") as session:
        complete = await session.say("/state")
        assert complete.outcome == "denied"
        assert not (tmp_path / "made").exists()
        await session.assert_replayed()


async def test_an_insertion_survives_a_crash(tmp_path: Path) -> None:
    write_command(tmp_path, "state", "State: !`echo x >> made`")
    log, model = MemoryLog(unix_ms), StepModel(answer())
    async with checked_host(tmp_path, model, log=log) as host, host.client() as client:
        (tmp_path / "state").mkdir(exist_ok=True)
        host.runtime.trust(str(tmp_path), trusted=True)
        session_id = await client.start(approval_policy="ask")
        run_id = await client.send("/state")
        asked = await client.wait_for(ApprovalRequired)
        (tmp_path / ".agents/commands/state.md").write_text("Changed: !`rm made`")
        await crash(host, session_id)
        await host.runtime.sessions.open(session_id)
        await client.api.approve(SubmitApproval(session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(ToolResult)
        await client.wait_for(RunComplete)
        assert (tmp_path / "made").read_text() == "x\n"
        assert model.user_messages()[0].startswith("State: [output 1]")


async def test_commands_are_listed(tmp_path: Path) -> None:
    write_command(tmp_path, "review", "---\ndescription: look\nargument-hint: <file>\n---\nReview")
    write_skill(tmp_path / ".claude/skills/pdf", "name: pdf\ndescription: forms")
    write_skill(tmp_path / ".claude/skills/bad", "name: bad")
    async with session_with(tmp_path) as session:
        reply = await _list(session.host, session.client)
        assert [(one.name, one.kind, one.owner, one.description) for one in reply.commands] == [
            ("review", "command", "project", "look"),
            ("pdf", "skill", "project", "forms"),
        ]
        assert len(reply.problems) == 1
        assert not session.client.bodies(WarningRaised)


async def _list(host: RuntimeHost, client: RuntimeClient) -> ListCommandsReply:
    return await client.api.request(ListCommands(str(host.workspace)), ListCommandsReply)
