"""Tools come from sources that may change while a session is open."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
from msgspec import Struct

from buddy.backends.native.session_tools import catalog_of
from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.errors import ProtocolError
from buddy.log.memory import MemoryLog
from buddy.models.contract import Piece, Prompt, ToolSpec
from buddy.protocol.codes import Source, Tier
from buddy.protocol.events import ApprovalReceived, ApprovalRequired, RunComplete, ToolResult
from buddy.protocol.intents import Other
from buddy.protocol.requests import SetApprovalPolicy, SetApprovalPolicyReply, SubmitApproval
from buddy.sessions.forking import fork_session
from buddy.sessions.past import read_past
from buddy.tools.contract import Call, Output, Place
from buddy.tools.registry import AnyTool, Registry
from buddy.tools.source import CombinedSource, FilteredSource, FixedSource, ToolScope
from tests.backends.agents import AGENTS, agent_host
from tests.harness.models import StepModel, Turn, answer, asks_for, call
from tests.harness.runtime import check_host, scripted_host


class NoArgs(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Remote:
    """A tool of a server that is connected to."""

    source: Source = "unknown"
    description: str = "Does something elsewhere."
    args: type[Struct] = NoArgs
    timeout: float | None = 5.0

    def __init__(self, name: str, tier: str = "read-only") -> None:
        self.name: str = name
        self.tier: Tier = cast("Tier", tier)

    async def intent(self, args: NoArgs, place: Place) -> Other:
        del args, place
        return Other(title="use a remote tool", summary=self.name)

    async def run(self, args: NoArgs, call: Call) -> Output:
        del args, call
        return Output(f"{self.name} ran")


class Undeclared(Remote):
    """It says nothing about its tier."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        del self.tier


class Changing:
    """A source whose tools a test changes."""

    def __init__(self, *tools: AnyTool) -> None:
        self.registry = Registry(tools)
        self.asked = 0

    async def tools(self, scope: ToolScope) -> Registry:
        assert scope.session_id
        self.asked += 1
        return self.registry


class Shown(StepModel):
    """Keeps the tools of each prompt, and lets a test act between turns."""

    def __init__(self, *turns: Turn) -> None:
        super().__init__(*turns)
        self.tools: list[tuple[ToolSpec, ...]] = []

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        self.tools.append(prompt.tools)
        async for piece in super().stream(prompt):
            yield piece

    def names(self, turn: int) -> set[str]:
        return {spec.name for spec in self.tools[turn]}


@pytest.fixture
def scope(place: Place) -> ToolScope:
    return ToolScope("ses_1", place)


async def test_a_combined_source_is_the_same_object_until_a_part_changes(scope: ToolScope) -> None:
    changing = Changing(Remote("one"))
    source = FilteredSource(CombinedSource(FixedSource(Registry((Remote("own"),))), changing), Registry.for_planning)
    first = await source.tools(scope)
    assert first is await source.tools(scope) and first.names == {"own", "one"}
    assert catalog_of(first) is catalog_of(await source.tools(scope))
    changing.registry = Registry((Remote("two"), Remote("three", "privileged")))
    assert (await source.tools(scope)).names == {"own", "two"}


async def test_a_name_that_is_taken_stays_with_the_first_source(
    scope: ToolScope, caplog: pytest.LogCaptureFixture
) -> None:
    own = Remote("read_file")
    source = CombinedSource(FixedSource(Registry((own,))), FixedSource(Registry((Remote("read_file"), Remote("x")))))
    with caplog.at_level(logging.WARNING, "buddy.tools"):
        registry = await source.tools(scope)
    assert registry.get("read_file") is own and registry.names == {"read_file", "x"}
    assert caplog.messages == ["ignored tools whose names are taken: read_file"]


@pytest.mark.parametrize("tool", [Remote("tool", "harmless"), Remote("tool", ""), Undeclared("tool")])
def test_a_tool_without_a_known_tier_is_privileged(tool: Remote) -> None:
    registry = Registry((tool,))
    assert registry.tier_of("tool") == "privileged" == registry.tier_of("missing")
    assert registry.for_planning().names == set()


async def test_a_session_gains_and_loses_a_tool_between_turns(tmp_path: Path) -> None:
    source = Changing(Remote("alpha"))
    gain = Changing(Remote("alpha"), Remote("beta")).registry
    model = Shown(
        *(asks_for(call("alpha", {})), asks_for(call("beta", {})), answer("now there are two")),
        *(asks_for(call("beta", {})), asks_for(call("alpha", {})), answer("now there is one")),
    )
    parts = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model, tools=(source,))
    async with scripted_host(tmp_path, overrides=parts) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        assert [result.is_error for result in client.bodies(ToolResult)] == [False, True]
        assert "unknown tool 'beta'. Available: alpha, capture-pane" not in model.tool_results()[-1]
        assert "unknown tool 'beta'. Available: alpha, delegate, edit_file" in model.tool_results()[-1]
        assert model.tools[0] is model.tools[1] is model.tools[2]  # nothing changed, so nothing is rebuilt
        source.registry = gain
        await client.send("use both")
        await client.wait_for(RunComplete)
        assert model.names(3) - model.names(2) == {"beta"}
        assert [result.text for result in client.bodies(ToolResult)][2:] == ["beta ran", "alpha ran"]
        assert source.asked == 6
        await check_host(host)


async def test_a_tool_that_disappears_during_its_turn_still_runs_in_that_turn(tmp_path: Path) -> None:
    source = Changing(Remote("alpha", "unheard-of"))
    model = Shown(asks_for(call("alpha", {})), answer("done"))
    parts = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model, tools=(source,))
    async with scripted_host(tmp_path, overrides=parts) as host, host.client() as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)  # its tier is not known, so it is privileged
        source.registry = Registry(())
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
        await client.wait_for(RunComplete)
        assert [result.text for result in client.bodies(ToolResult)] == ["alpha ran"]
        assert "alpha" in model.names(0) and "alpha" not in model.names(1)
        await check_host(host)


async def test_plan_mode_has_no_tool_above_read_only_wherever_it_comes_from(tmp_path: Path) -> None:
    source = Changing(Remote("looks"), Remote("acts", "side-effecting"), Undeclared("unclear"))
    model = Shown(asks_for(call("looks", {}), call("acts", {}), call("unclear", {})), answer("a plan"))
    parts = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model, tools=(source,))
    async with scripted_host(tmp_path, overrides=parts) as host, host.client() as client:
        await client.start(plan=True, approval_policy="all")
        await client.send("plan")
        await client.wait_for(RunComplete)
        assert model.names(0) & {"looks", "acts", "unclear", "run_shell"} == {"looks"}
        assert [result.is_error for result in client.bodies(ToolResult)] == [False, True, True]
        await check_host(host)


async def test_plan_mode_can_be_switched_and_a_restart_and_a_fork_keep_it(tmp_path: Path) -> None:
    source = Changing(Remote("looks"), Remote("acts", "side-effecting"))
    model = Shown(*[asks_for(call("acts", {})), answer("done")] * 4)
    log = MemoryLog(unix_ms)
    parts = RuntimeOverrides(log=log, provider=lambda _: model, tools=(source,))
    async with scripted_host(tmp_path, overrides=parts) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("one")
        await client.wait_for(RunComplete)
        reply = await client.api.request(SetApprovalPolicy(plan=True), SetApprovalPolicyReply, client.session_id)
        assert reply == SetApprovalPolicyReply("all", plan=True)
        await client.send("two")
        await client.wait_for(RunComplete)
        assert "acts" in model.names(0) and "acts" not in model.names(2)
        assert [result.is_error for result in client.bodies(ToolResult)] == [False, True]
        session = host.runtime.sessions.live(client.session_id)
        assert session is not None
        past = await read_past(log, client.session_id, session.journal.last_seq)
        assert past.fold.is_planning
        copy, _ = await fork_session(host.runtime.sessions, client.session_id, session.journal.last_seq, "cli")
        assert copy.fold.is_planning
        reply = await client.api.request(
            SetApprovalPolicy("ask", plan=False), SetApprovalPolicyReply, client.session_id
        )
        assert reply == SetApprovalPolicyReply("ask")
        await check_host(host)


async def test_plan_mode_of_another_agent_is_fixed_at_its_start(tmp_path: Path) -> None:
    opencode = next(cast for cast in AGENTS if cast.name == "opencode")
    async with agent_host(opencode, tmp_path) as host, host.client() as client:
        await client.start()
        with pytest.raises(ProtocolError, match="only when its session starts"):
            await client.api.request(SetApprovalPolicy(plan=True), SetApprovalPolicyReply, client.session_id)


async def test_plan_mode_denies_the_tool_of_another_agent(tmp_path: Path) -> None:
    opencode = next(cast for cast in AGENTS if cast.name == "opencode")
    async with agent_host(opencode, tmp_path) as host, host.client() as client:
        await client.start(plan=True, approval_policy="all")
        await client.send("other their_tool")
        await client.wait_for(RunComplete)
        (decided,) = client.bodies(ApprovalReceived)
        assert (decided.decision, decided.by) == ("deny", "rule:plan")
        assert not client.bodies(ApprovalRequired)
