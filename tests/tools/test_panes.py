"""The tools of the shared pane, and what run_shell says about a command that keeps running there."""

import asyncio
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from buddy.approvals.permissions import Permissions
from buddy.approvals.questions import Question
from buddy.approvals.rules import Rule, Rules
from buddy.errors import ToolError
from buddy.protocol.codes import Tier
from buddy.protocol.intents import Intent
from buddy.targets.launchers import LocalLauncher
from buddy.targets.local import Local
from buddy.targets.tmux.pane import Pane
from buddy.targets.tmux.target import Tmux
from buddy.tools.capture_pane import CapturePane, CapturePaneArgs, terminal_of
from buddy.tools.contract import Call, Place
from buddy.tools.run_shell import RunShell, RunShellArgs
from buddy.tools.send_keys import SendKeys, SendKeysArgs
from tests.harness.installed import need
from tests.harness.processes import wait_until


@pytest.fixture
def pane(call: Call, monkeypatch: pytest.MonkeyPatch) -> Generator[Call]:
    """The call, on a target with a pane of the test's own."""
    need("tmux")
    for name in ("TMUX", "TMUX_PANE"):
        monkeypatch.delenv(name, raising=False)
    place = Path(tempfile.mkdtemp(prefix="bt"))
    monkeypatch.setenv("TMUX_TMPDIR", str(place))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    monkeypatch.setenv("SHELL", "/bin/bash")
    root = call.place.root
    target = Tmux(Local(grace=0.1), LocalLauncher(), Pane(LocalLauncher(), "buddy-tools", root))
    try:
        yield msgspec.structs.replace(call, place=Place(target, root))
    finally:
        subprocess.run(["tmux", "kill-server"], check=False, capture_output=True)
        shutil.rmtree(place)


async def test_a_command_that_is_not_waited_for_is_followed_and_ended_by_keys(pane: Call) -> None:
    said = await RunShell().run(RunShellArgs("echo begun; sleep 600; echo ended-$?", wait=False), pane)
    assert "still running in the shared pane" in said.text
    assert not said.is_error
    seen = ""
    while "begun\n" not in seen:
        seen = (await CapturePane().run(CapturePaneArgs(delay_ms=50), pane)).text + "\n"
    sent = await SendKeys().run(SendKeysArgs(keys=("C-c",)), pane)
    assert "sent" in sent.text
    again = msgspec.structs.replace(pane, nonce=pane.nonce[::-1])
    assert (await RunShell().run(RunShellArgs("echo free"), again)).text == "exit code: 0\nstdout:\nfree"


async def test_after_the_wait_the_model_learns_that_the_command_still_runs(pane: Call) -> None:
    said = await RunShell().run(RunShellArgs("echo begun; sleep 600", wait="1s"), pane)
    assert "did not end within 1s and is still running" in said.text
    seen = ""
    while "begun\n" not in seen:
        seen = (await CapturePane().run(CapturePaneArgs(delay_ms=50), pane)).text + "\n"
    assert await pane.place.target.kill_orphans(pane.nonce) >= 1


async def test_keys_are_shown_in_full_when_approval_is_asked(pane: Call) -> None:
    intent = await SendKeys().intent(SendKeysArgs(literal_text="rm -rf x", keys=("C-c",), enter=True), pane.place)
    assert intent.kind == "keys"
    assert intent.details["text"] == "rm -rf x"
    assert intent.details["keys"] == ["C-c", "Enter"]
    assert intent.summary == "'rm -rf x' C-c Enter"


async def test_a_target_without_a_pane_says_so(call: Call) -> None:
    with pytest.raises(ToolError, match="has no tmux pane"):
        await CapturePane().run(CapturePaneArgs(), call)
    with pytest.raises(ToolError, match="has no tmux pane"):
        await SendKeys().run(SendKeysArgs(enter=True), call)


@pytest.mark.parametrize("args", [CapturePaneArgs(delay="1s", delay_ms=5), CapturePaneArgs(delay="soon")])
async def test_an_invalid_delay_is_refused(pane: Call, args: CapturePaneArgs) -> None:
    with pytest.raises(ToolError, match="delay"):
        await CapturePane().run(args, pane)


async def test_nothing_to_send_is_refused(pane: Call) -> None:
    with pytest.raises(ToolError, match="nothing to send"):
        await SendKeys().run(SendKeysArgs(), pane)


@pytest.fixture
def foreign(pane: Call) -> str:
    """A pane of the user's own, on the same server."""
    assert pane.place.root
    shown = "sh -c 'echo private; exec cat'"
    subprocess.run(["tmux", "new-session", "-d", "-s", "mine", "-n", "work", shown], check=True)
    return "mine:work"


def judged(question_tool: str, intent: Intent, *rules: Rule, tier: Tier = "read-only") -> str | None:
    question = Question("call_1", tier, intent, "digest", question_tool)
    return Permissions("/w", lambda: Rules(rules)).judge(question).decision


@pytest.mark.parametrize("rules", [(), (Rule("allow", tool="capture-pane"),), (Rule("allow"),)])
async def test_another_pane_is_read_only_after_a_decision(pane: Call, foreign: str, rules: tuple[Rule, ...]) -> None:
    place = pane.place
    for target in (foreign, "mine", "%0" if await own_id(pane) != "%0" else "%1"):
        intent = await CapturePane().intent(CapturePaneArgs(target=target), place)
        assert judged("capture-pane", intent, *rules) == "ask"
        assert "mine:work.0" in intent.summary
        assert intent.details["paneCommand"] in ("cat", "sh")
    for own in (None, await own_id(pane), "buddy-tools:buddy-shared"):
        intent = await CapturePane().intent(CapturePaneArgs(target=own), place)
        assert judged("capture-pane", intent) is None
        assert intent.summary == "the shared pane"


async def own_id(pane: Call) -> str:
    return (await terminal_of(pane.place).find_pane(None)).pane_id


async def test_keys_for_another_pane_are_asked_about_whatever_a_rule_allows(pane: Call, foreign: str) -> None:
    intent = await SendKeys().intent(SendKeysArgs(target=foreign, literal_text="x"), pane.place)
    assert judged("send-keys", intent, Rule("allow", tool="send-keys"), tier="privileged") == "ask"
    assert "mine:work.0" in intent.details["pane"]
    assert "paneTitle" in intent.details
    own = await SendKeys().intent(SendKeysArgs(literal_text="x"), pane.place)
    assert judged("send-keys", own, Rule("allow", tool="send-keys"), tier="privileged") == "allow"


async def test_a_pane_that_does_not_exist_is_no_question(pane: Call) -> None:
    for bad in ("%999999", "nosuch:window"):
        with pytest.raises(ToolError, match=r"pane|find"):
            await CapturePane().intent(CapturePaneArgs(target=bad), pane.place)


async def test_the_pane_that_buddy_runs_in_gets_no_keys(
    pane: Call, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await terminal_of(pane.place).find_pane(foreign)
    monkeypatch.setenv("TMUX_PANE", found.pane_id)
    for act in (
        SendKeys().intent(SendKeysArgs(target=foreign, enter=True), pane.place),
        SendKeys().run(SendKeysArgs(target=foreign, enter=True), pane),
    ):
        with pytest.raises(ToolError, match="Buddy itself"):
            await act


async def test_what_was_typed_before_is_shown_and_judged_with_the_rest(pane: Call) -> None:
    deny = Rule("deny", argv=("touch", "**"))
    await RunShell().run(RunShellArgs("true"), pane)
    await SendKeys().run(SendKeysArgs(literal_text="tou"), pane)
    intent = await SendKeys().intent(SendKeysArgs(literal_text="ch bad", enter=True), pane.place)
    assert intent.details["line"] == "touch bad\n"
    assert judged("send-keys", intent, deny, tier="privileged") == "deny"
    await SendKeys().run(SendKeysArgs(keys=("C-c",)), pane)
    intent = await SendKeys().intent(SendKeysArgs(literal_text="ls", enter=True), pane.place)
    assert judged("send-keys", intent, deny, Rule("allow", tool="send-keys"), tier="privileged") == "allow"


async def test_a_pane_that_was_not_used_yet_may_have_anything_in_its_line(pane: Call) -> None:
    intent = await SendKeys().intent(SendKeysArgs(keys=("Enter",)), pane.place)
    rules = (Rule("deny", argv=("touch", "**")), Rule("allow", tool="send-keys"))
    assert judged("send-keys", intent, *rules, tier="privileged") == "ask"


async def test_a_very_long_text_is_refused_before_anybody_is_asked(pane: Call) -> None:
    with pytest.raises(ToolError, match="write_file"):
        await SendKeys().intent(SendKeysArgs(literal_text="x" * 20_000), pane.place)


REFUSED = {
    "Return": "Enter",
    "Ctrl-C": "C-c",
    "ctrl+c": "C-c",
    "<Esc>": "Escape",
    "Backspace": "BSpace",
    "ArrowUp": "Up",
    "page_down": "PageDown",
    "Shift+Tab": "BTab",
    "Alt-x": "M-x",
    "<C-d>": "C-d",
    "Control-Alt-Delete": "C-M-Delete",
    "yes": "literal_text",
    "C-foo": "literal_text",
    "": "literal_text",
    "F13": "F1",
    "None": "literal_text",
    "Entering": "literal_text",
    "mousetrap": "literal_text",
}


async def test_an_unknown_key_is_refused_with_its_spelling_and_not_typed(pane: Call) -> None:
    for key, meant in REFUSED.items():
        args = SendKeysArgs(literal_text="echo typed", keys=("Space", key), enter=True)
        for act in (SendKeys().intent(args, pane.place), SendKeys().run(args, pane)):
            with pytest.raises(ToolError, match=f"is not the name of a key; .*{meant}"):
                await act
    assert "typed" not in (await CapturePane().run(CapturePaneArgs(), pane)).text


KEY_NAMES = (
    *(
        "Enter",
        "enter",
        "Escape",
        "Tab",
        "BTab",
        "Space",
        "BSpace",
        "Up",
        "Home",
        "PageUp",
        "PPage",
        "PgDn",
        "IC",
        "DC",
    ),
    *(
        "F1",
        "F12",
        "KP5",
        "KPEnter",
        "C-c",
        "c-C",
        "M-x",
        "S-Left",
        "C-M-x",
        "C-Up",
        "0x61",
        "q",
        "Q",
        ";",
        "-",
        "é",
    ),
)


@pytest.fixture
def seen(pane: Call, tmp_path: Path) -> Path:
    """What arrives in a pane whose program takes raw input."""
    assert pane.place.root
    command = f"stty raw -echo; echo ready; exec cat -v > {tmp_path / 'seen'}"
    subprocess.run(["tmux", "new-session", "-d", "-s", "raw", "-n", "work", command], check=True)
    return tmp_path / "seen"


async def test_every_accepted_name_is_pressed_by_tmux_and_not_typed(pane: Call, seen: Path) -> None:
    while "ready" not in (await CapturePane().run(CapturePaneArgs(target="raw:work", delay_ms=50), pane)).text:
        pass
    for name in KEY_NAMES:
        await SendKeys().run(SendKeysArgs(target="raw:work", keys=(name, "|")), pane)
    await SendKeys().run(SendKeysArgs(target="raw:work", literal_text="end"), pane)
    await asyncio.to_thread(wait_until, lambda: seen.exists() and "end" in seen.read_text(), "the keys")
    arrived = (await asyncio.to_thread(seen.read_text)).split("|")
    typed = [name for name, text in zip(KEY_NAMES, arrived, strict=False) if len(name) > 1 and name in text]
    assert len(arrived) == len(KEY_NAMES) + 1
    assert not typed
