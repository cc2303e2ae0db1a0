"""What sub-agents may not do: be more than their parent, come from an untrusted folder, or act for a guest."""

from pathlib import Path
from typing import Any

import pytest

from buddy.backends.external.own import FunctionAgent
from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.errors import ProtocolError
from buddy.log.memory import MemoryLog
from buddy.protocol.codes import Role
from buddy.protocol.events import (
    ApprovalRequired,
    ChildFinished,
    ChildStarted,
    RunComplete,
    SessionStarted,
    ToolResult,
)
from buddy.protocol.requests import (
    AcceptedReply,
    CancelRun,
    CancelRunReply,
    MintToken,
    MintTokenReply,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    StartSession,
    SubmitApproval,
)
from buddy.protocol.shapes import Repo, SessionOptions
from tests.backends.test_own import helper
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, RuntimeHost, checked_host, scripted_host
from tests.sessions.test_children import bodies, decide, delegate

AGENT = """---
name: {name}
description: For tests.
{more}
---
Do it well.
"""


def define(folder: Path, name: str, more: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(AGENT.format(name=name, more=more), encoding="utf-8")


async def test_a_definition_gives_prompt_tools_and_model(tmp_path: Path) -> None:
    define(tmp_path / "config" / "agents", "reader", "tools: Read, Grep\nmodel: other\nmaxTurns: 3")
    model = StepModel(asks_for(call("delegate", {"task": "read", "agent": "reader"})), answer("read"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        started = client.bodies(ChildStarted)[0]
        assert (started.agent, started.budget.max_turns) == ("reader", 3)
        start = (await bodies(host, started.session_id))[0]
        assert isinstance(start, SessionStarted) and start.options is not None
        options = start.options
        assert (options.tools, options.profile) == (("read_file", "read_output", "grep"), "other")
        assert (options.system_prompt or "").startswith("Do it well.\n\nYou are a sub-agent")


async def test_a_project_defines_agents_only_while_it_is_trusted(tmp_path: Path) -> None:
    define(tmp_path / ".claude" / "agents", "theirs")
    wanted = call("delegate", {"task": "x", "agent": "theirs"})
    model = StepModel(asks_for(wanted), answer("without"), asks_for(wanted), answer("with it"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        assert "unknown agent 'theirs'. Available: general" in client.bodies(ToolResult)[0].text
        host.runtime.trust(str(tmp_path), trusted=True)
        await client.send("again")
        await client.wait_for(RunComplete)
        assert client.bodies(ChildStarted)[0].agent == "theirs"


def with_helper(model: StepModel) -> RuntimeOverrides:
    agents = {"helper": lambda: FunctionAgent("helper", helper)}
    return RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model, agents=agents)


async def test_another_agent_works_under_the_same_rules(tmp_path: Path) -> None:
    define(tmp_path / "config" / "agents", "other", "agent_runtime: helper")
    model = StepModel(asks_for(call("delegate", {"task": "touch made", "agent": "other"})), answer("done"))
    async with scripted_host(tmp_path, overrides=with_helper(model)) as host, host.client() as client:
        await client.start(approval_policy="ask")
        await client.send("go")
        own = await client.wait_for(ApprovalRequired)
        assert own.details["agentRuntime"] == "helper"
        await decide(client, client.session_id, own)
        theirs = await client.wait_for(ApprovalRequired)
        assert (theirs.agent, theirs.details["agent"]) == ("other", "helper")
        await decide(client, client.received[-1].session_id, theirs)
        await client.wait_for(RunComplete)
        assert client.bodies(ToolResult)[0].text == "heard touch made"
        assert (tmp_path / "made").exists()


async def test_another_agent_follows_a_narrower_policy_although_it_cannot_plan(tmp_path: Path) -> None:
    define(tmp_path / "config" / "agents", "other", "agent_runtime: helper")
    model = StepModel(asks_for(call("delegate", {"task": "touch made", "agent": "other"})), answer("done"))
    async with scripted_host(tmp_path, overrides=with_helper(model)) as host, host.client() as client:
        await client.start(approval_policy="ask")
        await client.send("go")
        await decide(client, client.session_id, await client.wait_for(ApprovalRequired))
        await client.wait_for(ApprovalRequired)
        child = host.runtime.sessions.live(client.received[-1].session_id)
        assert child is not None
        await client.api.request(SetApprovalPolicy("none", plan=True), SetApprovalPolicyReply, client.session_id)
        assert child.approvals.session_policy().policy == "none"
        await client.wait_for(RunComplete)
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        ("agent_runtime: helper\ntools: Read", {}, "helper cannot be limited to some tools"),
        ("agent_runtime: helper", {"tools": ("delegate",)}, "helper cannot be limited to some tools"),
        ("agent_runtime: nonsense", {}, "the sub-agent other cannot start: unknown agent runtime 'nonsense'"),
        ("model: missing/one", {"budget": None}, ""),
    ],
)
async def test_what_a_parent_cannot_hand_over_is_refused(
    tmp_path: Path, more: str, options: dict[str, Any], said: str
) -> None:
    define(tmp_path / "config" / "agents", "other", more)
    model = StepModel(asks_for(call("delegate", {"task": "x", "agent": "other"})), answer("done"), answer("done"))
    async with scripted_host(tmp_path, overrides=with_helper(model)) as host, host.client() as client:
        await client.start(approval_policy="all", **options)
        await client.send("go")
        await client.wait_for(RunComplete)
        assert said in client.bodies(ToolResult)[0].text
        assert (client.bodies(ChildStarted) == []) == bool(said)


async def test_a_role_on_the_parent_holds_for_its_sub_agents_and_no_more(tmp_path: Path) -> None:
    model = StepModel(
        asks_for(call("delegate", {"task": "x"})), asks_for(shell("touch made")), answer(), answer("done")
    )
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="ask")
        await client.send("go")
        await decide(client, client.session_id, await client.wait_for(ApprovalRequired))
        asked = await client.wait_for(ApprovalRequired)
        event = client.received[-1]
        submission = SubmitApproval(event.session_id, event.run_id or "", asked.approval_id, "approve")
        await refused_for("observer", host, client.session_id, submission)
        async with host.client("guest") as guest:
            token = await mint(guest, client.session_id, "approver")
            await guest.api.attach(client.session_id, 0, token)
            theirs = await guest.wait_for(ApprovalRequired, lambda body: body.agent is not None)
            assert theirs.approval_id == asked.approval_id
            cancel = CancelRun(event.session_id, event.run_id or "")
            with pytest.raises(ProtocolError, match="driver role"):
                await guest.api.request(cancel, CancelRunReply, event.session_id)
            await guest.api.request(submission, AcceptedReply, event.session_id)
        await client.wait_for(RunComplete)
        assert client.bodies(ChildFinished)[0].outcome == "success"


async def refused_for(role: Role, host: RuntimeHost, session_id: str, submission: SubmitApproval) -> None:
    async with host.client("watcher") as watcher:
        await watcher.api.attach(session_id, 0, await mint(watcher, session_id, role))
        with pytest.raises(ProtocolError, match="approver role"):
            await watcher.api.request(submission, AcceptedReply, submission.session_id)


async def mint(client: RuntimeClient, session_id: str, role: Role) -> str:
    return (await client.api.request(MintToken(role), MintTokenReply, session_id)).attach_token


async def test_a_sub_agent_belongs_to_the_user_of_its_parent(tmp_path: Path) -> None:
    model = StepModel(asks_for(call("delegate", {"task": "read"})), answer("read"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        host.runtime.scrubber.register("eve-of-destruction")  # hidden in events
        request = StartSession(
            "interactive", "default", "local", Repo(str(tmp_path)), options=SessionOptions(approval_policy="all")
        )
        session, _ = await host.runtime.sessions.start(request, user="eve-of-destruction")
        client.session_id = session.session_id
        await client.send("go")
        await client.wait_for(RunComplete)
        child = await host.runtime.log.get(client.bodies(ChildStarted)[0].session_id)
        assert child is not None
        assert child.user == "eve-of-destruction"


async def test_a_window_of_the_parent_is_not_outlasted_by_its_sub_agents(tmp_path: Path) -> None:
    release = tmp_path / "release"
    wait = shell(f"while [ ! -e {release} ]; do sleep 0.05; done")
    model = StepModel(asks_for(delegate()), asks_for(wait), answer("made"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="ask")
        window = SetApprovalPolicy("until", 600.0)
        await client.api.request(window, SetApprovalPolicyReply, client.session_id)
        await client.send("go")
        child = (await client.wait_for(ChildStarted)).session_id
        for wider in (SetApprovalPolicy("until", 900.0), SetApprovalPolicy("all"), SetApprovalPolicy("auto")):
            with pytest.raises(ProtocolError, match="cannot be wider than its parent's"):
                await client.api.request(wider, SetApprovalPolicyReply, child)
        for narrower in (SetApprovalPolicy("until", 60.0), SetApprovalPolicy("ask"), SetApprovalPolicy("none")):
            await client.api.request(narrower, SetApprovalPolicyReply, child)
        release.touch()
        await client.wait_for(RunComplete)


async def test_in_plan_mode_sub_agents_plan_too(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    looks = asks_for(call("read_file", {"path": "notes.txt"}), shell("touch made"))
    model = StepModel(asks_for(delegate()), looks, answer("it says milk"), answer("done"))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all", plan=True)
        await client.send("go")
        await client.wait_for(RunComplete)
        assert [result.text for result in client.bodies(ToolResult)] == ["it says milk"]
        theirs = await bodies(host, client.bodies(ChildStarted)[0].session_id)
        read, made = [body for body in theirs if isinstance(body, ToolResult)]
        assert "remember the milk" in read.text
        assert made.is_error and "unknown tool 'run_shell'" in made.text
        assert not (tmp_path / "made").exists()
