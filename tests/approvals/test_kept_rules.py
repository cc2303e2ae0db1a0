"""Rules in a live session hold where they were made, while the scripts are the same, for names that can be read."""

from pathlib import Path

import pytest

from buddy.approvals.permissions import Permissions
from buddy.approvals.questions import Question
from buddy.protocol.events import ApprovalRequired, RunComplete
from buddy.protocol.intents import Exec, Intent, Write
from buddy.protocol.requests import SubmitApproval
from tests.approvals.test_permissions import SHELL, for_a_while, ruled
from tests.harness.models import calls, says


async def test_always_holds_in_its_directory_and_while_the_script_is_the_same(tmp_path: Path) -> None:
    for name in ("work/build.sh", "work/vendor/evil/build.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("#!/bin/sh\ntrue\n")
        (tmp_path / name).chmod(0o700)
    here = calls(("run_shell", {"command": "./build.sh"}))
    there = calls(("run_shell", {"command": "./build.sh", "cwd": "vendor/evil"}))
    script = (here, says("one"), here, says("two"), there, says("three"), here, says("four"))
    async with ruled(tmp_path, {}, *script) as client:
        await client.start()
        run_id = await client.send("go")
        asked = await client.wait_for(ApprovalRequired)
        kept = SubmitApproval(client.session_id, run_id, asked.approval_id, "approve", scope="always")
        await client.api.approve(kept)
        await client.wait_for(RunComplete)
        await client.send("the same")
        await client.wait_for(RunComplete)
        assert len(client.bodies(ApprovalRequired)) == 1
        run_id = await client.send("in another directory")
        asked = await client.wait_for(ApprovalRequired)
        assert asked.details["cwd"].endswith("vendor/evil")
        await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "deny"))
        await client.wait_for(RunComplete)
        (tmp_path / "work" / "build.sh").write_text("#!/bin/sh\ntouch pwned\n")
        await client.send("changed")
        asked = await client.wait_for(ApprovalRequired)
        assert "not what it was when the rule was made" in asked.details["why"]


@pytest.mark.parametrize("cwd", ["fixtures/x", "fixtures", "link"])
async def test_a_rule_for_the_root_does_not_hold_elsewhere(tmp_path: Path, cwd: str) -> None:
    (tmp_path / "work" / "fixtures" / "x").mkdir(parents=True)
    (tmp_path / "work" / "link").symlink_to("fixtures")
    rules = {"rules": [{"decision": "allow", "argv": ["git", "status"]}, {"decision": "allow", "argv": ["ls", "**"]}]}
    call = calls(("run_shell", {"command": "git status", "cwd": cwd}))
    async with ruled(tmp_path, rules, call, says("done")) as client:
        await client.start()
        await client.send("go")
        assert "holds in the root of the workspace alone" in (await client.wait_for(ApprovalRequired)).details["why"]


async def test_a_grantfor_a_while_holds_in_its_directory_alone(tmp_path: Path) -> None:
    (tmp_path / "work" / "sub").mkdir(parents=True)
    script = (SHELL, says("one"), calls(("run_shell", {"command": "echo hi", "cwd": "sub"})), says("two"))
    async with ruled(tmp_path, {}, *script) as client:
        await client.start()
        run_id = await client.send("go")
        await client.api.approve(for_a_while(client, run_id, await client.wait_for(ApprovalRequired), 600))
        await client.wait_for(RunComplete)
        await client.send("elsewhere")
        assert (await client.wait_for(ApprovalRequired)).details["cwd"].endswith("/sub")


@pytest.mark.parametrize("name", ["a\u202eb", "a\u034fb", "a\U000e0041b", "geheime\u0301"])
async def test_a_name_that_deceives_is_written_only_after_a_question(tmp_path: Path, name: str) -> None:
    rules = {"rules": [{"decision": "allow", "tool": "write_file", "path": "**"}]}
    write = calls(("write_file", {"path": name, "content": "x"}))
    async with ruled(tmp_path, rules, write, says("done")) as client:
        await client.start()
        await client.send("go")
        assert "alwaysRule" not in (await client.wait_for(ApprovalRequired)).details


@pytest.mark.parametrize(
    ("intent", "decision"),
    [
        (Exec(title="", summary="", command="echo 'a\u202eb'", cwd="/w", sandbox="confined"), "ask"),
        (Exec(title="", summary="", command="echo \x1b[2J", cwd="/w", sandbox="confined"), "ask"),
        (Exec(title="", summary="", command="cat <<E\n\tx\nE", cwd="/w", sandbox="confined"), None),
        (Write(title="", summary="", path="/w/geheime\u0301", protected=False), "ask"),
        (Write(title="", summary="", path="/w/geheim\u00e9", protected=False), None),
    ],
)
def test_a_policy_does_not_approve_what_cannot_be_seen(intent: Intent, decision: str | None) -> None:
    opinion = Permissions("/w").judge(Question("call_1", "privileged", intent, "digest", "run_shell"))
    assert opinion.decision == decision
    assert opinion.by_rule is (decision == "ask")
