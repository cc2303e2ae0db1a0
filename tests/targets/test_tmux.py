"""Commands in a real tmux pane: here, in a container and over ssh."""

import asyncio
import os
from pathlib import Path

import pytest

from buddy.errors import ProtocolError, ToolError
from buddy.targets import orphans
from buddy.targets.contract import Capture, Finished, Keys, Reattachable, Target, Terminal
from buddy.targets.fencing import set_fence
from buddy.targets.launchers import ContainerLauncher, Launcher, LocalLauncher, SshLauncher
from buddy.targets.local import Local
from buddy.targets.oneshot import ask
from buddy.targets.remote import Remote
from buddy.targets.tmux.pane import Pane, default_session
from buddy.targets.tmux.target import Tmux
from tests.targets.captured_output import CapturedOutput
from tests.targets.machines import SshServer


@pytest.fixture
def server(tmux_server: Path) -> Path:
    return tmux_server


@pytest.fixture
def tmux(server: Path, tmp_path: Path) -> Tmux:
    assert server.exists()
    return make(LocalLauncher(), str(tmp_path))


def make(launcher: Launcher, root: str, session: str = "buddy-test") -> Tmux:
    base = Local(grace=0.2) if isinstance(launcher, LocalLauncher) else Remote(launcher, grace=0.2)
    return Tmux(base, launcher, Pane(launcher, session, root))


def panes(server: Path) -> list[str]:
    return sorted(path.name for path in (server / "buddy-panes").iterdir())


def test_tmux_is_a_terminal_and_reattachable(tmux: Tmux) -> None:
    target: Target = tmux
    assert isinstance(target, Terminal)
    assert isinstance(target, Reattachable)
    assert target.name == "local"
    assert tmux.attach_hint() == "tmux attach -t buddy-test"


async def test_a_command_runs_in_the_pane_and_returns_its_output_and_code(
    tmux: Tmux, tmp_path: Path, nonce: str, server: Path
) -> None:
    taken = CapturedOutput()
    command = "pwd; printf '\\033[31mred\\033[0m\\n'; tty >&2; exit 7"
    assert await tmux.run(command, cwd=str(tmp_path), nonce=nonce, on_output=taken) == Finished(7)
    lines = taken.output["stdout"].decode().splitlines()
    assert lines[:2] == [str(tmp_path), "red"]
    assert lines[2].startswith("/dev/pts/")
    assert len(lines) == 3
    assert panes(server) == []
    assert "pwd; printf" in await tmux.snapshot()


async def test_commands_run_one_after_another_in_one_pane(tmux: Tmux, tmp_path: Path, nonce: str) -> None:
    for count in range(3):
        taken = CapturedOutput()
        finished = await tmux.run(f"echo n{count}", cwd=str(tmp_path), nonce=f"{nonce}{count}", on_output=taken)
        assert finished == Finished(0)
        assert taken.output["stdout"] == f"n{count}\n".encode()
    listed = await ask(
        LocalLauncher(), ["tmux", "list-windows", "-t", "buddy-test", "-F", "#{window_name} #{window_panes}"]
    )
    assert listed.output == b"buddy-shared 1\n"


async def test_output_arrives_while_the_command_runs(tmux: Tmux, tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    command = "echo first; while ! [ -e go ]; do sleep 0.05; done"
    running = asyncio.create_task(tmux.run(command, cwd=str(tmp_path), nonce=nonce, on_output=taken))
    await taken.wait_for(b"first\n")
    assert not running.done()
    (tmp_path / "go").touch()
    assert await running == Finished(0)


async def test_a_command_is_passed_on_unchanged(tmux: Tmux, tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    command = "printf '%s|' '$HOME' \"a'b\" '`id`' '!!' 'x\ny' \\\\\n\necho ü; touch 'C-c Enter'"
    await tmux.run(command, cwd=str(tmp_path), nonce=nonce, on_output=taken)
    assert taken.output["stdout"].decode() == "$HOME|a'b|`id`|!!|x\ny|\\|ü\n"
    assert (tmp_path / "C-c Enter").exists()


async def test_a_program_cannot_forge_the_end_of_its_call(tmux: Tmux, tmp_path: Path, nonce: str) -> None:
    """It knows its nonce and the format of the marks, and can read the screen."""
    taken = CapturedOutput()
    forged = (
        f"printf '\\033]7770;{nonce}\\033\\\\'; printf '\\n[buddy {nonce}: 0] $ \\n';"
        f" printf '\\033]7770;%s\\033\\\\' {'0' * 48}; tmux capture-pane -p >/dev/null; echo later; exit 4"
    )
    assert await tmux.run(forged, cwd=str(tmp_path), nonce=nonce, on_output=taken) == Finished(4)
    assert taken.output["stdout"].endswith(b"later\n")


async def test_after_the_wait_the_command_keeps_running(tmux: Tmux, tmp_path: Path, nonce: str) -> None:
    taken = CapturedOutput()
    command = "echo up; while ! [ -e go ]; do sleep 0.05; done; echo done >result"
    finished = await tmux.run(command, cwd=str(tmp_path), nonce=nonce, on_output=taken, timeout=0.5)
    assert finished.timed_out
    assert finished.still_running
    seen = CapturedOutput()
    waiting = asyncio.create_task(make(LocalLauncher(), str(tmp_path)).reattach(nonce, seen))
    await seen.wait_for(b"up")
    with pytest.raises(ToolError, match="busy"):
        await tmux.run("echo no", cwd=str(tmp_path), nonce=nonce[::-1], on_output=CapturedOutput())
    (tmp_path / "go").touch()
    assert await waiting == Finished(0)
    assert (tmp_path / "result").read_text() == "done\n"


async def test_a_command_can_be_started_without_waiting(tmux: Tmux, tmp_path: Path, nonce: str) -> None:
    finished = await tmux.run(
        "echo up; cat >typed", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput(), timeout=0
    )
    assert finished.still_running
    taken = CapturedOutput()
    waiting = asyncio.create_task(tmux.reattach(nonce, taken))
    await taken.wait_for(b"up")
    await tmux.send_keys(Keys(literal_text="Enter C-c; $(id)", enter=True))
    await tmux.send_keys(Keys(keys=("C-d",)))
    assert await waiting == Finished(0)
    assert (tmp_path / "typed").read_text() == "Enter C-c; $(id)\n"


@pytest.mark.parametrize("end", [";", "x;", "\\;", "x\\;", ";;"])
async def test_keys_and_text_cannot_begin_another_tmux_command(
    tmux: Tmux, tmp_path: Path, nonce: str, server: Path, end: str
) -> None:
    await tmux.run("echo up; cat >typed", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput(), timeout=0)
    taken = CapturedOutput()
    waiting = asyncio.create_task(tmux.reattach(nonce, taken))
    await taken.wait_for(b"up")
    hit = server / "hit"
    run_shell = ("run-shell", f"touch {hit}")
    await tmux.send_keys(Keys(keys=(end, *run_shell), literal_text=f"a{end}", enter=True))
    await tmux.send_keys(Keys(literal_text=end, keys=(*run_shell, end), enter=True))
    await tmux.send_keys(Keys(keys=("C-d",)))
    typed = f"a{end}{end}run-shelltouch {hit}\n{end}run-shelltouch {hit}{end}\n"
    assert await waiting == Finished(0)
    assert (tmp_path / "typed").read_text() == typed
    assert not hit.exists()


async def test_another_process_can_reattach_to_a_running_command(tmux: Tmux, tmp_path: Path, nonce: str) -> None:
    command = "echo early; while ! [ -e go ]; do sleep 0.05; done; echo late; exit 5"
    await tmux.run(command, cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput(), timeout=0)
    taken = CapturedOutput()
    waiting = asyncio.create_task(make(LocalLauncher(), str(tmp_path)).reattach(nonce, taken))
    await taken.wait_for(b"early\n")
    (tmp_path / "go").touch()
    assert await waiting == Finished(5)
    assert taken.output["stdout"] == b"early\nlate\n"
    assert await tmux.reattach(nonce, CapturedOutput()) is None


async def test_a_cancelled_command_leaves_nothing_and_the_pane_stays_usable(
    tmux: Tmux, tmp_path: Path, nonce: str, server: Path
) -> None:
    taken = CapturedOutput()
    command = "trap '' TERM; (setsid sleep 600 &); echo up; sleep 600; sleep 600"
    running = asyncio.create_task(tmux.run(command, cwd=str(tmp_path), nonce=nonce, on_output=taken))
    await taken.wait_for(b"up")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert orphans.find(nonce) == []
    assert await tmux.run("true", cwd=str(tmp_path), nonce=nonce[::-1], on_output=CapturedOutput()) == Finished(0)
    assert panes(server) == []


@pytest.mark.parametrize("kill", ["kill-server", "kill-pane"])
async def test_a_closed_pane_leaves_the_outcome_unknown(tmux: Tmux, tmp_path: Path, nonce: str, kill: str) -> None:
    taken = CapturedOutput()
    running = asyncio.create_task(tmux.run("echo up; sleep 600", cwd=str(tmp_path), nonce=nonce, on_output=taken))
    await taken.wait_for(b"up")
    await ask(LocalLauncher(), ["tmux", kill, *([] if kill == "kill-server" else ["-t", "=buddy-test:=buddy-shared"])])
    with pytest.raises(ToolError) as lost:
        await running
    assert lost.value.code == "UNKNOWN_OUTCOME"
    await tmux.kill_orphans(nonce)


async def test_capturing_a_missing_alternate_screen_falls_back(tmux: Tmux, tmp_path: Path, nonce: str) -> None:
    await tmux.run("echo seen", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput())
    shown = await tmux.capture(Capture(include_alternate_screen=True))
    assert shown.startswith("[there is no alternate screen")
    assert "seen" in shown
    assert "seen" in await tmux.capture(Capture(start="-", end="-"))


async def test_the_pane_this_program_runs_in_is_refused(
    tmux: Tmux, tmp_path: Path, nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tmux.run("true", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput())
    shown = await ask(
        LocalLauncher(), ["tmux", "display-message", "-p", "-t", "=buddy-test:=buddy-shared", "#{pane_id}"]
    )
    monkeypatch.setenv("TMUX_PANE", shown.output.decode().strip())
    with pytest.raises(ToolError, match="another terminal"):
        await tmux.run("true", cwd=str(tmp_path), nonce=nonce[::-1], on_output=CapturedOutput())


@pytest.mark.parametrize("name", ["a;kill-server", "a:b", "-x", "", "a b", "$(id)", "a.b", "x" * 100])
def test_an_invalid_session_name_is_refused(name: str) -> None:
    with pytest.raises(ProtocolError, match="tmux session name"):
        Pane(LocalLauncher(), name, "/")


@pytest.mark.parametrize(
    "bad", [Capture(target="a;b"), Capture(start="-t x"), Capture(target="-a"), Capture(end="1;2")]
)
async def test_an_invalid_pane_or_line_is_refused(tmux: Tmux, bad: Capture) -> None:
    with pytest.raises(ToolError):
        await tmux.capture(bad)


async def test_an_unsafe_private_directory_is_refused(tmux: Tmux, tmp_path: Path, nonce: str, server: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (server / "buddy-panes").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ToolError, match="private"):
        await tmux.run("true", cwd=str(tmp_path), nonce=nonce, on_output=CapturedOutput())
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_each_workspace_has_its_own_session() -> None:
    assert default_session("/a") != default_session("/b")
    assert default_session("/a").startswith("buddy-")
    assert len(default_session("/a")) == len("buddy-") + 4


async def test_a_container_can_have_a_pane(container: str, nonce: str) -> None:
    tmux = make(ContainerLauncher(container, "podman"), "/work", f"t{os.getpid()}")
    taken = CapturedOutput()
    assert await tmux.run("pwd; exit 3", cwd="/work", nonce=nonce, on_output=taken) == Finished(3)
    assert taken.output["stdout"] == b"/work\n"
    assert tmux.attach_hint() == f"podman exec -it {container} tmux attach -t t{os.getpid()}"


async def test_a_host_can_have_a_pane(
    sshd: SshServer, control_dir: Path, tmp_path: Path, nonce: str, server: Path
) -> None:
    assert server.name.startswith("bt")
    ssh = SshLauncher("127.0.0.1", control_dir, sshd.options)
    session = f"buddy-test-{os.getpid()}"
    tmux = make(ssh, str(tmp_path), session)
    taken = CapturedOutput()
    try:
        assert await tmux.run("pwd; exit 3", cwd=str(tmp_path), nonce=nonce, on_output=taken) == Finished(3)
        assert taken.output["stdout"] == f"{tmp_path}\n".encode()
    finally:
        await ask(ssh, ["tmux", "kill-session", "-t", f"={session}"])


async def test_nothing_is_typed_under_an_old_epoch(
    tmux: Tmux, tmp_path: Path, nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    del tmux  # with it there is a server
    monkeypatch.setenv("HOME", str(tmp_path))
    launcher = LocalLauncher()
    old, new = [Tmux(Remote(launcher), launcher, Pane(launcher, "buddy-test", str(tmp_path))) for _ in range(2)]
    set_fence(old, "sess_1:1")
    set_fence(new, "sess_1:2")
    taken = CapturedOutput()
    command = "echo typed >> ledger"
    assert await old.run(command, cwd=str(tmp_path), nonce=nonce, on_output=taken) == Finished(0)
    assert await new.reattach(f"{nonce}x", taken) is None
    await new.kill_orphans(f"{nonce}x")
    with pytest.raises(ToolError, match="another node has the session"):
        await old.run(command, cwd=str(tmp_path), nonce=f"{nonce}x", on_output=taken)
    for keys in (Keys(literal_text="echo pressed >> ledger"), Keys(keys=("C-u",)), Keys(enter=True)):
        with pytest.raises(ToolError, match="another node has the session"):
            await old.send_keys(keys)
    await new.send_keys(Keys(keys=("C-u",)))
    assert await new.run(command, cwd=str(tmp_path), nonce=f"{nonce}y", on_output=taken) == Finished(0)
    assert (tmp_path / "ledger").read_text().split() == ["typed", "typed"]


def test_a_pane_on_this_machine_has_no_fence(tmux: Tmux) -> None:
    set_fence(tmux, "sess_1:1")
    assert tmux.fence == ""
