"""PreToolUse and PermissionRequest: they can deny, ask or change a call, and never allow past a rule that denies."""

from pathlib import Path

import msgspec
import pytest

from buddy.backends.hooks import HookCall
from buddy.hooks.names import show
from buddy.protocol.events import ApprovalReceived, ApprovalRequired, RunComplete, ToolClaimed, ToolResult
from buddy.protocol.intents import Keys
from buddy.protocol.typed_text import InputLine
from tests.harness.models import answer, asks_for, call, shell
from tests.hooks.hooking import deciding, hook, hooked_session, listed, saying, user_hooks, write_hooks


async def test_a_script_sees_the_call_in_the_shape_it_knows(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreToolUse=hook("cat > seen.json; env > seen.env", "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("echo hello")), answer()) as session:
        await session.say()
        seen = msgspec.json.decode((tmp_path / "seen.json").read_bytes())
        assert seen["hook_event_name"] == "PreToolUse"
        assert seen["session_id"] == session.client.session_id
        assert seen["cwd"] == str(tmp_path)
        assert seen["tool_name"] == "Bash"
        assert seen["tool_input"]["command"] == "echo hello"
        assert seen["tool_use_id"] == session.client.bodies(ToolResult)[0].call_id
        assert f"CLAUDE_PROJECT_DIR={tmp_path}" in (tmp_path / "seen.env").read_text()
        assert session.verdicts() == ["none"]
        await session.assert_replayed()


def test_what_is_typed_into_a_pane_is_shown_as_a_command() -> None:
    line = InputLine("rm -rf ", 7)
    keys = Keys(title="", summary="", pane="%1", text="/", keys=("Enter",), before=line)
    arguments = '{"literal_text": "/", "keys": ["Enter"]}'
    shown = show(HookCall("PreToolUse", "call", "send-keys", arguments, keys), "/work")
    assert shown.names == ("Bash", "send-keys")
    assert shown.input["command"].strip() == "rm -rf /" and shown.input["keys"] == ["Enter"]


async def test_files_are_shown_by_their_full_path(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real.txt")
    user_hooks(tmp_path, PreToolUse=hook("cat >> seen.json; echo >> seen.json", "Write|Edit|Read"))
    calls = (
        call("write_file", {"path": "link", "content": "one"}),
        call("edit_file", {"path": "real.txt", "old": "one", "new": "two"}),
        call("read_file", {"path": "real.txt"}),
    )
    async with hooked_session(tmp_path, *(asks_for(one) for one in calls), answer()) as session:
        await session.say()
    seen = [msgspec.json.decode(line) for line in (tmp_path / "seen.json").read_text().splitlines() if line]
    assert [one["tool_name"] for one in seen] == ["Write", "Edit", "Read"]
    assert {one["tool_input"]["file_path"] for one in seen} == {str(tmp_path / "real.txt")}
    assert seen[1]["tool_input"]["old_string"] == "one"


@pytest.mark.parametrize("command", ["cat >/dev/null; echo not that >&2; exit 2", deciding("deny", "not that")])
async def test_a_refusal_goes_back_to_the_model(tmp_path: Path, command: str) -> None:
    user_hooks(tmp_path, PreToolUse=hook(command, "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        complete = await session.say()
        assert complete.outcome == "success"
        assert not (tmp_path / "made").exists()
        [finished] = session.finished()
        assert (finished.verdict, finished.reason, finished.event) == ("deny", "not that", "PreToolUse")
        [received] = session.client.bodies(ApprovalReceived)
        assert (received.decision, received.by) == ("deny", "hook")
        assert "not that" in session.model.tool_results()[0]
        assert not session.client.bodies(ToolClaimed)
        await session.assert_replayed()


@pytest.mark.parametrize("approved", [True, False])
async def test_a_hook_can_leave_a_call_to_a_person(tmp_path: Path, approved: bool) -> None:
    user_hooks(tmp_path, PreToolUse=hook(deciding("ask", "look at this"), "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        run = session.client.send("go")
        await run
        asked = await session.decide("approve" if approved else "deny")
        assert "look at this" in str(asked.details["why"])
        await session.client.wait_for(ToolResult)
        assert (tmp_path / "made").exists() == approved
        await session.assert_replayed()


async def test_changed_input_is_what_is_decided_on_and_run(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreToolUse=hook(deciding("allow", updatedInput={"command": "touch safe"}), "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("touch unsafe")), answer(), policy="ask") as session:
        await session.client.send("go")
        asked = await session.decide()
        assert asked.details["command"] == "touch safe"
        result = await session.client.wait_for(ToolResult)
        assert not result.is_error
        assert (tmp_path / "safe").exists()
        assert not (tmp_path / "unsafe").exists()
        [claimed] = session.client.bodies(ToolClaimed)
        assert claimed.digest == asked.digest
        [finished] = session.finished()
        assert (finished.verdict, finished.input) == ("changed", {"command": "touch safe"})
        await session.assert_replayed()


async def test_changed_paths_come_back_in_our_names(tmp_path: Path) -> None:
    changed = {"file_path": str(tmp_path / "b.txt")}
    user_hooks(tmp_path, PreToolUse=hook(deciding("allow", updatedInput=changed), "Write"))
    write = call("write_file", {"path": "a.txt", "content": "text"})
    async with hooked_session(tmp_path, asks_for(write), answer()) as session:
        await session.say()
        assert (tmp_path / "b.txt").read_text() == "text"
        assert not (tmp_path / "a.txt").exists()


async def test_input_that_a_hook_broke_is_an_error_of_the_call(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreToolUse=hook(deciding("allow", updatedInput={"command": 7}), "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        assert (await session.say()).outcome == "success"
        [result] = session.client.bodies(ToolResult)
        assert result.is_error
        assert not (tmp_path / "made").exists()
        await session.assert_replayed()


async def test_the_users_hook_can_allow(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreToolUse=hook(deciding("allow", "known"), "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer(), policy="ask") as session:
        await session.say()
        assert (tmp_path / "made").exists()
        [received] = session.client.bodies(ApprovalReceived)
        assert (received.decision, received.by) == ("approve", "hook")
        await session.assert_replayed()


async def test_the_strictest_of_several_wins(tmp_path: Path) -> None:
    hooks = [hook(deciding("allow")), hook(deciding("deny", "never")), hook(deciding("ask")), hook("true")]
    user_hooks(tmp_path, PreToolUse=hooks)
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        await session.say()
        assert session.verdicts() == ["allow", "deny", "ask", "none"]
        assert not (tmp_path / "made").exists()
        await session.assert_replayed()


async def test_input_that_a_hook_changed_is_not_allowed_by_another(tmp_path: Path) -> None:
    changing = hook(deciding("allow", updatedInput={"command": "touch changed"}))
    user_hooks(tmp_path, PreToolUse=[changing, hook(deciding("allow"))])
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer(), policy="ask") as session:
        await session.client.send("go")
        asked = await session.decide("deny")
        assert asked.details["command"] == "touch changed"
        await session.client.wait_for(ToolResult)
        assert not (tmp_path / "changed").exists()
        assert session.verdicts() == ["changed", "allow", "allow"]  # the other one was asked again


async def test_input_that_a_hook_changed_is_judged_by_the_others(tmp_path: Path) -> None:
    guard = "grep -q evil && { echo no evil >&2; exit 2; }; exit 0"
    changing = hook(deciding("allow", updatedInput={"command": "touch evil"}))
    write_hooks(tmp_path / ".claude" / "settings.json", listed({"PreToolUse": changing}))
    user_hooks(tmp_path, PreToolUse=hook(guard, "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer(), trusted=True) as session:
        await session.say()
        assert [(one.verdict, one.owner, one.again) for one in session.finished()] == [
            ("changed", "project", False),
            ("none", "user", False),
            ("deny", "user", True),
        ]
        assert not (tmp_path / "evil").exists() and not (tmp_path / "made").exists()
        [result] = session.client.bodies(ToolResult)
        assert "no evil" in result.text
        await session.assert_replayed()


async def test_hooks_that_keep_changing_the_input_leave_it_to_a_person(tmp_path: Path) -> None:
    one, two = (hook(deciding("allow", updatedInput={"command": f"touch {name}"})) for name in ("one", "two"))
    user_hooks(tmp_path, PreToolUse=[one, two])
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        await session.client.send("go")
        asked = await session.decide("approve")
        assert asked.details["command"] == "touch two" and "would change the input again" in str(asked.details["why"])
        await session.client.wait_for(RunComplete)
        assert session.verdicts() == ["changed", "changed", "ask"]
        assert (tmp_path / "two").exists() and not (tmp_path / "one").exists()
        await session.assert_replayed()


@pytest.mark.parametrize(
    ("matcher", "matches"),
    [
        *((matcher, True) for matcher in (None, "", "*", "Bash", "Edit|Bash", "run_shell", "B.*h$")),
        *((matcher, False) for matcher in ("Edit", "Bas", "bash", "mcp__.*")),
    ],
)
async def test_matchers(tmp_path: Path, matcher: str | None, matches: bool) -> None:
    user_hooks(tmp_path, PreToolUse=hook("exit 2", matcher))
    async with hooked_session(tmp_path, asks_for(shell("true")), answer()) as session:
        await session.say()
        assert session.verdicts() == (["deny"] if matches else [])


FAILURES = {
    "crash": ("exit 1", "exited with code 1"),
    "signal": ("kill -9 $$", "signal 9"),
    "missing interpreter": ("/no/such/interpreter x", "exited with code 127"),
    "rubbish": ("echo hello there", "not JSON"),
    "broken JSON": ("echo '{\"hookSpecificOutput\": {'", "not what a hook may print"),
    "unknown verdict": (deciding("perhaps"), "not what a hook may print"),
    "wrong type": (saying({"continue": "no"}), "not what a hook may print"),
    "binary": ("head -c 1000 /dev/urandom", "not JSON"),
    "flood": ("yes", "printed more than 256 KiB"),
    "huge": ("head -c 10000000 /dev/zero", "printed more than 256 KiB"),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_hook_without_a_verdict_leaves_the_call_to_a_person(tmp_path: Path, kind: str) -> None:
    command, why = FAILURES[kind]
    user_hooks(tmp_path, PreToolUse=hook(command, "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer()) as session:
        await session.client.send("go")
        asked = await session.decide("deny")
        [finished] = session.finished()
        assert finished.verdict == "failed"
        assert why in (finished.reason or "")
        assert why in str(asked.details["why"])
        await session.client.wait_for(ToolResult)
        assert not (tmp_path / "made").exists()
        await session.assert_replayed()


@pytest.mark.parametrize(("policy", "outcome"), [("all", "success"), ("auto", "success")])
async def test_without_a_person_a_failed_hook_denies(tmp_path: Path, policy: str, outcome: str) -> None:
    user_hooks(tmp_path, PreToolUse=hook("exit 1", "Bash"))
    turns = (asks_for(shell("touch made")), answer())
    async with hooked_session(tmp_path, *turns, mode="headless", policy=policy) as session:
        assert (await session.say()).outcome == outcome
        assert not (tmp_path / "made").exists()
        assert "gave no verdict" in session.model.tool_results()[0]
        [received] = session.client.bodies(ApprovalReceived)
        assert (received.decision, received.by) == ("deny", "hook")
        await session.assert_replayed()


async def test_reading_is_guarded_as_well(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("hidden")
    user_hooks(tmp_path, PreToolUse=hook("grep -q secret && exit 2; exit 0", "Read"))
    reads = (call("read_file", {"path": "secret.txt"}), call("list_files", {}))
    async with hooked_session(tmp_path, asks_for(*reads), answer()) as session:
        await session.say()
        refused, listed = session.model.tool_results()
        assert "hidden" not in refused
        assert "denied by hook" in refused
        assert "secret.txt" in listed
        await session.assert_replayed()


async def test_a_hook_can_end_the_run(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreToolUse=hook(saying({"continue": False, "stopReason": "enough"}), "Bash"))
    async with hooked_session(tmp_path, asks_for(shell("touch made"))) as session:
        complete = await session.say()
        assert complete.outcome == "denied"
        assert not (tmp_path / "made").exists()
        await session.assert_replayed()


def permission(behavior: str, **more: object) -> str:
    return saying({"hookSpecificOutput": {"decision": {"behavior": behavior, **more}}})


@pytest.mark.parametrize(
    ("command", "by", "made"),
    [
        (permission("allow"), "hook", True),
        (permission("deny", message="no way"), "hook", False),
        ("exit 2", "hook", False),
        ("true", "cli", True),
        ("exit 1", "cli", True),
        (permission("allow", updatedInput={"command": "true"}), "cli", True),
    ],
)
async def test_hooks_for_permission_requests_come_before_a_person(
    tmp_path: Path, command: str, by: str, made: bool
) -> None:
    user_hooks(tmp_path, PermissionRequest=hook(command))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer(), policy="ask") as session:
        await session.client.send("go")
        if by == "cli":
            await session.decide()
        await session.client.wait_for(ToolResult)
        [received] = session.client.bodies(ApprovalReceived)
        assert received.by == by
        assert bool(session.client.bodies(ApprovalRequired)) == (by == "cli")
        assert (tmp_path / "made").exists() == made
        await session.assert_replayed()


@pytest.mark.parametrize(("command", "made"), [(permission("allow"), True), ("true", False), ("exit 1", False)])
async def test_a_hook_can_stand_in_for_a_person(tmp_path: Path, command: str, made: bool) -> None:
    user_hooks(tmp_path, PermissionRequest=hook(command))
    turns = (asks_for(shell("touch made")), answer())
    async with hooked_session(tmp_path, *turns, mode="headless", policy="auto") as session:
        assert (await session.say()).outcome == "success"
        assert (tmp_path / "made").exists() == made
        await session.assert_replayed()


async def test_no_hook_allows_what_only_a_person_may(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreToolUse=hook(deciding("allow")), PermissionRequest=hook(permission("allow")))
    write = call("write_file", {"path": ".envrc", "content": "x"})
    async with hooked_session(tmp_path, asks_for(write), answer(), policy="ask") as session:
        await session.client.send("go")
        await session.decide("deny")
        assert session.verdicts() == ["none", "none"]
        await session.client.wait_for(ToolResult)
        assert not (tmp_path / ".envrc").exists()
        await session.assert_replayed()


async def test_no_hook_allows_past_a_rule_that_denies(tmp_path: Path) -> None:
    user_hooks(tmp_path, PreToolUse=hook(deciding("allow")), PermissionRequest=hook(permission("allow")))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer(), policy="all") as session:
        rule = '[[permissions.rules]]\ndecision = "deny"\ntool = "run_shell"\n'
        (tmp_path / "config" / "buddy.toml").write_text(rule)
        await session.say()
        [received] = session.client.bodies(ApprovalReceived)
        assert received.by.startswith("rule:")
        assert not (tmp_path / "made").exists()
        await session.assert_replayed()
