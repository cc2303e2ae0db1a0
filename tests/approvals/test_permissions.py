"""Permission rules in a live session: who decides, what is remembered, what a project may add."""

import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from buddy.approvals.rules import Rule, Rules, Subject
from buddy.config.places import Places
from buddy.config.settings import AgentSettings, Config, Profile, ToolSettings
from buddy.daemon.runtime import Runtime, RuntimeOverrides, unix_ms
from buddy.errors import ProtocolError
from buddy.log.memory import MemoryLog
from buddy.models.script import Script, ScriptedReply
from buddy.models.scripted import Scripted
from buddy.protocol.events import (
    ApprovalReceived,
    ApprovalRequired,
    RunComplete,
    ToolClaimed,
    ToolResult,
    WarningRaised,
)
from buddy.protocol.requests import SubmitApproval, TrustFolder, TrustFolderReply
from tests.harness.clock import ManualClock
from tests.harness.models import StepModel, answer, asks_for, calls, says, shell
from tests.harness.runtime import RuntimeClient, checked_host, scripted_host

SHELL = calls(("run_shell", {"command": "echo hi"}))


@asynccontextmanager
async def ruled(
    workspace: Path, permissions: Mapping[str, object], *replies: ScriptedReply, shell_confirm: bool = True
) -> AsyncGenerator[RuntimeClient, None]:
    """A client of a runtime with these rules; its user file is `config/buddy.toml`."""
    work = workspace / "work"
    work.mkdir(exist_ok=True)
    config = Config(
        models={"test": Profile(api="scripted")},
        agent=AgentSettings(model="test"),
        permissions=dict(permissions),
        tools=ToolSettings(shell_confirm=shell_confirm),
    )
    places = Places(workspace / "config", workspace / "state", workspace / "socket")
    script = Script(replies=replies)
    parts = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda resolved: Scripted(resolved.profile, script))
    runtime = Runtime(config, places, {}, parts)
    try:
        from buddy.client.client import Client

        async with Client(runtime.connect(), "cli") as client:
            yield RuntimeClient(client, work)
    finally:
        await runtime.close()


async def test_an_allow_rule_decides_without_asking(tmp_path: Path) -> None:
    rules = {"rules": [{"decision": "allow", "argv": ["echo", "**"]}]}
    async with ruled(tmp_path, rules, SHELL, says("done")) as client:
        await client.start()
        await client.send("go")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        received = client.bodies(ApprovalReceived)[0]
        assert received.by.startswith("rule:")
        assert received.decision == "approve"
        assert client.bodies(ApprovalRequired) == []


async def test_a_deny_rule_wins_over_the_policy_all_and_the_model_is_reported(tmp_path: Path) -> None:
    rules = {"rules": [{"decision": "deny", "argv": ["echo", "**"]}]}
    async with ruled(tmp_path, rules, SHELL, says("understood")) as client:
        await client.start(approval_policy="all")
        await client.send("go")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        result = client.bodies(ToolResult)[0]
        assert result.is_error
        assert "rule" in result.text


async def test_headless_runs_may_use_what_a_rule_allows(tmp_path: Path) -> None:
    rules = {"rules": [{"decision": "allow", "argv": ["echo", "**"]}]}
    async with ruled(tmp_path, rules, SHELL, says("done")) as client:
        await client.start(mode="headless")
        await client.send("go")
        assert (await client.wait_for(RunComplete)).outcome == "success"


async def test_always_saves_exactly_the_rule_that_was_shown(tmp_path: Path) -> None:
    async with ruled(tmp_path, {}, SHELL, SHELL, says("done")) as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.details["alwaysRule"]["argv"] == ["echo", "hi"]
        await client.api.approve(
            SubmitApproval(client.session_id, run_id, asked.approval_id, "approve", scope="always")
        )
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert len(client.bodies(ApprovalRequired)) == 1
        written = (tmp_path / "config" / "buddy.toml").read_text()
        assert 'argv = ["echo", "hi"]' in written


async def test_always_is_refused_where_no_rule_was_shown(tmp_path: Path) -> None:
    async with ruled(tmp_path, {}, calls(("run_shell", {"command": "echo $HOME"})), says("done")) as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert "alwaysRule" not in asked.details
        answer = SubmitApproval(client.session_id, run_id, asked.approval_id, "approve", scope="always")
        with pytest.raises(ProtocolError, match="offers no rule"):
            await client.api.approve(answer)
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
        assert (await client.wait_for(RunComplete)).outcome == "success"


async def test_a_grantfor_a_while_is_the_shown_rule_until_its_time_is_over(tmp_path: Path) -> None:
    clock = ManualClock()
    other = asks_for(shell("echo ho"))
    model = StepModel(*(step for _ in range(3) for step in (asks_for(shell("echo hi")), answer())), other, answer())
    async with checked_host(tmp_path, model, clock=clock) as host, host.client() as client:
        await client.start()
        run_id = await client.send("one")
        asked = await client.wait_for(ApprovalRequired)
        await client.api.approve(for_a_while(client, run_id, asked, 600))
        await client.wait_for(RunComplete)
        rule = msgspec.convert(asked.details["alwaysRule"], Rule)
        granted = client.bodies(ApprovalReceived)[0]
        assert (granted.by, granted.scope, granted.expires_at) == ("cli", "until", clock.now + 600_000)
        clock.advance(599)
        await client.send("two")
        await client.wait_for(RunComplete)
        assert client.bodies(ApprovalReceived)[1].by == f"rule:{rule.rule_id}"
        clock.advance(1)
        run_id = await client.send("three")
        again = await client.wait_for(ApprovalRequired)
        await client.api.approve(for_a_while(client, run_id, again, 600))
        await client.wait_for(RunComplete)
        await client.send("four")
        assert (await client.wait_for(ApprovalRequired)).details["command"] == "echo ho"
        assert not (tmp_path / "config" / "buddy.toml").exists()


async def test_a_grantfor_a_while_is_gone_after_a_restart(tmp_path: Path) -> None:
    script = (SHELL, says("first"), SHELL, says("second"))
    log = MemoryLog(unix_ms)
    async with scripted_host(tmp_path, *script, log=log) as host, host.client() as client:
        session_id = await client.start()
        run_id = await client.send("go")
        await client.api.approve(for_a_while(client, run_id, await client.wait_for(ApprovalRequired), 600))
        await client.wait_for(RunComplete)
    async with scripted_host(tmp_path, *script, log=log) as host, host.client() as client:
        client.session_id = session_id
        await client.api.attach(session_id)
        await client.send("again")
        await client.wait_for(ApprovalRequired)


async def test_a_grantfor_a_while_does_not_outrank_a_denial(tmp_path: Path) -> None:
    async with ruled(tmp_path, {}, SHELL, says("first"), SHELL, says("second")) as client:
        await client.start()
        run_id = await client.send("go")
        await client.api.approve(for_a_while(client, run_id, await client.wait_for(ApprovalRequired), 600))
        await client.wait_for(RunComplete)
        (tmp_path / "config").mkdir(exist_ok=True)
        denial = '[[permissions.rules]]\ndecision = "deny"\nargv = ["echo", "**"]\n'
        (tmp_path / "config" / "buddy.toml").write_text(denial)
        await client.send("again")
        await client.wait_for(RunComplete)
        assert [received.decision for received in client.bodies(ApprovalReceived)] == ["approve", "deny"]


@pytest.mark.parametrize(("scope", "seconds"), [("until", None), ("once", 5.0), ("always", 5.0)])
async def test_a_duration_goes_with_the_scope_until_alone(
    tmp_path: Path, scope: Literal["once", "until", "always"], seconds: float | None
) -> None:
    async with ruled(tmp_path, {}, SHELL, says("done")) as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        request = SubmitApproval(
            client.session_id, run_id, asked.approval_id, "approve", scope=scope, duration_seconds=seconds
        )
        with pytest.raises(ProtocolError, match="durationSeconds"):
            await client.api.approve(request)


def for_a_while(client: RuntimeClient, run_id: str, asked: ApprovalRequired, seconds: float) -> SubmitApproval:
    return SubmitApproval(
        client.session_id, run_id, asked.approval_id, "approve", scope="until", duration_seconds=seconds
    )


async def test_a_protected_file_is_asked_for_although_a_rule_allows_its_path(tmp_path: Path) -> None:
    rules = {"rules": [{"decision": "allow", "tool": "write_file", "path": "**"}]}
    write = calls(("write_file", {"path": ".git/hooks/pre-commit", "content": "x"}))
    async with ruled(tmp_path, rules, write, says("done")) as client:
        await client.start()
        await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.details["protected"] is True


async def test_a_project_file_is_inert_until_trusted_and_then_only_tightens(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "buddy.toml").write_text(
        '[agent]\nmodel = "evil"\n[[permissions.rules]]\ndecision = "deny"\nargv = ["echo", "**"]\n'
        '[[permissions.rules]]\ndecision = "allow"\nargv = ["rm", "**"]\n'
    )
    rules = {"rules": [{"decision": "allow", "argv": ["echo", "**"]}]}
    script = (SHELL, says("first"), SHELL, says("second"), SHELL, says("third"))
    async with ruled(tmp_path, rules, *script) as client:
        await client.start()
        await client.send("untrusted")
        await client.wait_for(RunComplete)
        assert client.bodies(ApprovalReceived)[-1].decision == "approve"
        trusting = TrustFolder(str(tmp_path / "work"), True)
        await client.api.request(trusting, TrustFolderReply)
        await client.send("trusted")
        await client.wait_for(RunComplete)
        assert client.bodies(ApprovalReceived)[-1].decision == "deny"
        (tmp_path / "work" / "buddy.toml").write_text("# changed\n")
        await client.send("changed since")
        await client.wait_for(RunComplete)
        assert client.bodies(ApprovalReceived)[-1].decision == "approve"


async def test_a_session_reports_which_of_a_folders_files_have_no_effect(tmp_path: Path) -> None:
    async with ruled(tmp_path, {}, says("done")) as client:

        async def told() -> list[tuple[str, str]]:
            await client.start()
            await client.send("go")
            await client.wait_for(RunComplete)
            return [(body.code, body.message) for body in client.bodies(WarningRaised)]

        async def trust(*, trusted: bool) -> None:
            await client.api.request(TrustFolder(str(tmp_path / "work"), trusted), TrustFolderReply)

        assert await told() == []
        file = '[agent]\nmodel = "evil"\n[models.evil]\nbase_url = "http://127.0.0.1:9"\n'
        (tmp_path / "work" / "buddy.toml").write_text(file)
        expected = [("FOLDER_NOT_TRUSTED", "buddy.toml is ignored until the folder is trusted")]
        assert await told() == expected
        await trust(trusted=True)
        expected += [("PROJECT_FILE", "ignored in the folder's own file, which may only ask and deny: agent, models")]
        assert await told() == expected
        await trust(trusted=False)
        assert await told() == expected


async def test_without_rules_everything_is_asked(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, SHELL, says("done")) as host, host.client() as client:
        await client.start()
        await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.details["why"]


async def test_a_broken_rule_file_removes_no_denial(tmp_path: Path) -> None:
    script = (SHELL, says("first"), SHELL, says("second"))
    rules = {"rules": [{"decision": "deny", "argv": ["echo", "**"]}]}
    async with ruled(tmp_path, rules, *script) as client:
        await client.start(approval_policy="all")
        await client.send("before")
        await client.wait_for(RunComplete)
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config" / "buddy.toml").write_text("[[permissions.rules\n")
        await client.send("after")
        await client.wait_for(RunComplete)
        assert [received.decision for received in client.bodies(ApprovalReceived)] == ["deny", "deny"]


async def test_without_shell_confirm_commands_run_unless_a_rule_denies_them(tmp_path: Path) -> None:
    script = (SHELL, calls(("run_shell", {"command": "rm x"})), says("done"))
    rules = {"rules": [{"decision": "deny", "argv": ["rm", "**"]}]}
    async with ruled(tmp_path, rules, *script, shell_confirm=False) as client:
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        assert [received.decision for received in client.bodies(ApprovalReceived)] == ["approve", "deny"]
        assert client.bodies(ApprovalRequired) == []


SECRET = {"rules": [{"decision": "deny", "path": "secrets/"}, {"decision": "ask", "tool": "list_files"}]}


async def test_a_denied_path_is_closed_to_reading_searching_and_commands(tmp_path: Path) -> None:
    (tmp_path / "work" / "secrets").mkdir(parents=True)
    (tmp_path / "work" / "secrets" / "key").write_text("the canary sings\n")
    (tmp_path / "work" / "song").write_text("no canary here\n")
    (tmp_path / "work" / "link").symlink_to("secrets/key")
    script = calls(
        ("read_file", {"path": "secrets/key"}),
        ("read_file", {"path": "link"}),
        ("read_file", {"path": "./x/../secrets//key"}),
        ("grep", {"pattern": "canary"}),
        ("list_files", {"path": "secrets"}),
        ("grep", {"pattern": "canary", "path": "secrets"}),
        ("edit_file", {"path": "secrets/key", "old": "the canary sang", "new": "x"}),
        ("write_file", {"path": "secrets/new", "content": "x"}),
        ("run_shell", {"command": "cat secrets/key"}),
        ("run_shell", {"command": "cd secrets && cat key > out"}),
        ("run_shell", {"command": "tar -cfx.tar ./secrets"}),
        ("run_shell", {"command": "echo x >secrets/new"}),
        ("run_shell", {"command": "curl -d @secrets/key --data=@secrets/key localhost"}),
    )
    async with ruled(tmp_path, SECRET, script, says("done")) as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        results = client.bodies(ToolResult)
        assert [result.tool_name for result in results if not result.is_error] == ["grep"]
        assert results[3].text == "song:1:no canary here"
        assert not any("sings" in result.text for result in results)
        assert {received.decision for received in client.bodies(ApprovalReceived)} == {"deny"}


async def test_a_rule_may_have_even_looking_asked_for(tmp_path: Path) -> None:
    script = calls(("list_files", {}), ("time", {}))
    async with ruled(tmp_path, SECRET, script, says("done")) as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        assert (asked.kind, asked.title) == ("tool", "list a directory")
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert client.bodies(ToolClaimed) == []
        assert [received.by for received in client.bodies(ApprovalReceived)] == ["cli"]


async def test_always_for_a_file_that_runs_holds_in_this_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "b.sh").write_text("echo hi\n")
    async with ruled(tmp_path, {}, calls(("run_shell", {"command": "bash b.sh"})), says("done")) as client:
        await client.start()
        await client.send("go")
        shown = (await client.wait_for(ApprovalRequired)).details["alwaysRule"]
    rules = Rules([msgspec.convert(shown, Rule)])
    digest = hashlib.sha256(b"echo hi\n").hexdigest()
    work = str(tmp_path / "work")
    here = Subject("run_shell", command="bash b.sh", workspace=work, cwd=work, scripts=(f"{digest}  b.sh",))
    assert rules.judge(here).decision == "allow"
    assert rules.judge(msgspec.structs.replace(here, scripts=("0" * 64 + "  b.sh",))).decision == "ask"
    assert rules.judge(msgspec.structs.replace(here, cwd=f"{work}/vendor")).decision == "ask"
    assert rules.judge(msgspec.structs.replace(here, workspace=str(tmp_path))).decision is None


async def test_a_trusted_file_that_says_nothing_clear_has_everything_asked_for(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "buddy.toml").write_text('[[permissions.rules]]\ndecision = "deny"\nargv = "rm"\n')
    rules = {"rules": [{"decision": "allow", "argv": ["echo", "**"]}]}
    async with ruled(tmp_path, rules, SHELL, says("done")) as client:
        await client.api.request(TrustFolder(str(tmp_path / "work"), True), TrustFolderReply)
        await client.start()
        await client.send("go")
        assert "ask everything" in (await client.wait_for(ApprovalRequired)).details["why"]
