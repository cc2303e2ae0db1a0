"""The tools of the shared pane, and what run_shell says about a command that keeps running there."""

import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from buddy.errors import ToolError
from buddy.targets.launchers import LocalLauncher
from buddy.targets.local import Local
from buddy.targets.tmux.pane import Pane
from buddy.targets.tmux.target import Tmux
from buddy.tools.capture_pane import CapturePane, CapturePaneArgs
from buddy.tools.contract import Call, Place
from buddy.tools.run_shell import RunShell, RunShellArgs
from buddy.tools.send_keys import SendKeys, SendKeysArgs
from tests.harness.installed import need


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
