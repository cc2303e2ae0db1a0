"""Hooks of a folder: nothing until it is trusted, as they were trusted, and they can only tighten."""

from pathlib import Path

import pytest

from buddy.approvals.trust import Trust, effects_of
from buddy.hooks.session_hooks import SessionHooks
from buddy.protocol.events import ApprovalReceived, RunComplete, WarningRaised
from tests.harness.models import answer, asks_for, shell
from tests.hooks.hooking import deciding, hook, hooked_session, listed, write_hooks

FILES = (".claude/settings.json", ".agents/hooks.json")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("trusted", [True, False])
async def test_a_folder_has_no_hooks_until_it_is_trusted(tmp_path: Path, file: str, trusted: bool) -> None:
    write_hooks(tmp_path / file, listed({"PreToolUse": hook("touch ran; exit 2", "Bash")}))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer(), trusted=trusted) as session:
        await session.say()
        assert (tmp_path / "ran").exists() == trusted
        assert (tmp_path / "made").exists() != trusted
        codes = [warning.code for warning in session.client.bodies(WarningRaised)]
        assert codes == ([] if trusted else ["FOLDER_NOT_TRUSTED"])


async def test_a_folders_hook_cannot_allow(tmp_path: Path) -> None:
    write_hooks(tmp_path / FILES[0], listed({"PreToolUse": hook(deciding("allow")), "PermissionRequest": hook("true")}))
    async with hooked_session(tmp_path, asks_for(shell("touch made")), answer(), policy="ask", trusted=True) as session:
        await session.client.send("go")
        await session.decide("deny")
        assert session.verdicts() == ["none", "none"]
        await session.client.wait_for(RunComplete)
        assert [received.by for received in session.client.bodies(ApprovalReceived)] == ["cli"]


@pytest.mark.parametrize("changed", ["definition", "script", "folder"])
async def test_hooks_that_changed_guard_until_they_are_trusted_again(tmp_path: Path, changed: str) -> None:
    script = tmp_path / (".claude/hooks/guard.sh" if changed == "folder" else "guard.sh")
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text("exit 0\n")
    command = f'sh "$CLAUDE_PROJECT_DIR/{script.relative_to(tmp_path)}"'
    write_hooks(tmp_path / FILES[0], listed({"PreToolUse": hook(command)}))
    turns = (asks_for(shell("touch one")), answer(), asks_for(shell("touch two")), answer())
    async with hooked_session(tmp_path, *turns, asks_for(shell("touch three")), answer(), trusted=True) as session:
        await session.say()
        assert (tmp_path / "one").exists()
        if changed == "definition":
            write_hooks(tmp_path / FILES[0], listed({"PreToolUse": hook(f"{command} ")}))
        else:
            script.write_text("touch evil; exit 0\n")
        await session.client.send("again")
        asked = await session.decide("deny")
        assert "changed since they were trusted" in str(asked.details["why"])
        await session.client.wait_for(RunComplete)
        assert not (tmp_path / "evil").exists()
        session.host.runtime.trust(str(tmp_path), trusted=True)
        assert (await session.say()).outcome == "success"
        assert (tmp_path / "three").exists()


def test_the_question_shows_what_would_run(tmp_path: Path) -> None:
    write_hooks(tmp_path / FILES[0], listed({"PreToolUse": hook("python3 guard.py"), "Stop": hook("make test")}))
    [effect] = effects_of(str(tmp_path))
    assert effect.name == FILES[0]
    assert "PreToolUse: python3 guard.py" in effect.text
    assert "Stop: make test" in effect.text


def test_settings_without_hooks_need_no_trust(tmp_path: Path) -> None:
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"permissions": {"allow": ["Bash"]}}')
    assert effects_of(str(tmp_path)) == []


def test_trust_ends_with_a_changed_script(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    trust = Trust(tmp_path / "state")
    (tmp_path / "guard.py").write_text("one")
    write_hooks(tmp_path / FILES[1], listed({"PreToolUse": hook("python3 guard.py")}))
    trust.set(str(tmp_path), trusted=True)
    assert trust.is_trusted(str(tmp_path))
    (tmp_path / "guard.py").write_text("two")
    assert not trust.is_trusted(str(tmp_path))


@pytest.mark.parametrize("is_evil_first", [True, False])
def test_hooks_that_change_while_they_are_judged_do_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_evil_first: bool
) -> None:
    (tmp_path / "state").mkdir()
    trust = Trust(tmp_path / "state")
    good, evil = (listed({"PreToolUse": hook(command)}) for command in ("true", "evil"))
    write_hooks(tmp_path / FILES[0], good)
    trust.set(str(tmp_path), trusted=True)
    answer = trust.answer

    def judge(root: str) -> bool | None:
        """Another process changes the file just before, or just after, it is compared with what was trusted."""
        write_hooks(tmp_path / FILES[0], good)
        found = answer(root)
        write_hooks(tmp_path / FILES[0], good if is_evil_first else evil)
        return found

    monkeypatch.setattr(trust, "answer", judge)
    write_hooks(tmp_path / FILES[0], evil if is_evil_first else good)
    hooks = SessionHooks("sess_1", str(tmp_path), tmp_path / "none.json", trust)
    assert not hooks.watches("PreToolUse")
