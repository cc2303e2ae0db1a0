"""What confined commands can and cannot do, with both confinement methods."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.targets import orphans
from buddy.targets.confine import probe
from buddy.targets.confine.methods import METHODS
from buddy.targets.confine.policy import OWN_CODE, ConfinementPolicy
from buddy.targets.confine.target import Confined
from buddy.targets.contract import Finished
from tests.targets.captured_output import CapturedOutput
from tests.targets.inspect_files import contents, mode_of, run


async def test_only_the_workspace_is_writable(confined: Confined, root: Path, home: Path, nonce: str) -> None:
    outside = [home / "x", Path("/etc/buddy-probe"), Path("/usr/buddy-probe"), root.parent / "beside"]
    tries = "; ".join(f"echo x >'{path}'" for path in outside)
    code, _ = await run(confined, f"echo in >inside; {tries}; chmod 777 /etc/passwd; true", root, nonce)
    assert code == 0
    assert (root / "inside").read_text() == "in\n"
    assert not any(path.exists() for path in outside)
    assert mode_of("/etc/passwd") == 0o644


PROTECTED = [".git/hooks/pre-commit", ".git/config", "buddy.toml", ".vscode/tasks.json", ".git/config.worktree"]


@pytest.mark.parametrize("path", PROTECTED)
async def test_a_protected_path_cannot_be_written(confined: Confined, root: Path, nonce: str, path: str) -> None:
    before = contents(root)
    attack = f"mkdir -p $(dirname {path}); echo evil >{path}"
    code, _ = await run(confined, attack, root, nonce)
    assert code != 0
    assert contents(root) == before


async def test_a_protected_path_cannot_be_moved_away(confined: Confined, root: Path, nonce: str) -> None:
    attacks = "mv .git moved; rm -rf .git/hooks; mv .git/config .git/c; ln -sf /x .git/hooks; umount .git/hooks; "
    attacks += "mount -o remount,rw,bind .git/hooks; ln .git/config hard; echo evil >>hard; true"
    await run(confined, attacks, root, nonce)
    assert (root / ".git" / "hooks").is_dir()
    assert (root / ".git" / "config").read_text() == "[core]\n"
    assert not (root / "moved").exists()


async def test_a_missing_repository_cannot_be_created(way: str, tmp_path: Path, home: Path, nonce: str) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    target = Confined(ConfinementPolicy(str(bare), home=str(home), own=()), lambda: probe.ProbeResult(way))
    code, _ = await run(target, "mkdir -p .git/hooks && echo evil >.git/hooks/pre-commit", bare, nonce)
    assert code != 0
    assert list(bare.iterdir()) == []


async def test_startup_files_are_protected_if_the_home_directory_is_the_workspace(
    way: str, home: Path, nonce: str
) -> None:
    target = Confined(ConfinementPolicy(str(home), home=str(home), own=()), lambda: probe.ProbeResult(way))
    (home / ".bashrc").write_text("mine\n")
    await run(
        target, "echo evil >>.bashrc; echo evil >.profile; mkdir .ssh; echo evil >.ssh/rc; echo ok >x", home, nonce
    )
    assert contents(home) == {".bashrc": b"mine\n", "x": b"ok\n"}


async def test_our_own_files_are_invisible(confined: Confined, root: Path, own: Path, nonce: str) -> None:
    code, output = await run(confined, f"cat {own}/auth.json; echo x >{own}/new", root, nonce)
    assert code != 0
    assert "secret" not in output
    assert contents(own) == {"auth.json": b"secret"}


async def test_the_network_is_blocked_unless_it_was_allowed(
    confined: Confined, root: Path, nonce: str, listener: int
) -> None:
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{listener}"
    python = f"{sys.executable} -c 'import socket; socket.create_connection((\"127.0.0.1\", {listener}), 2)'"
    for command in (connect, python):
        code, _ = await run(confined, command, root, nonce)
        assert code != 0
    assert await run(confined.with_network(), connect, root, nonce) == (0, "")


async def test_a_command_has_a_loopback_of_its_own(confined: Confined, root: Path, nonce: str) -> None:
    (root / "talk.py").write_text(
        "import socket\n"
        "with socket.create_server(('127.0.0.1', 0)) as server:\n"
        "    with socket.create_connection(server.getsockname(), 5):\n"
        "        print('connected')\n"
    )
    assert await run(confined, f"{sys.executable} talk.py", root, nonce) == (0, "connected\n")


async def test_processes_outside_are_invisible(confined: Confined, root: Path, nonce: str) -> None:
    code, output = await run(confined, "ls /proc | grep -c '^[0-9]'", root, nonce)
    assert code == 0
    assert int(output) < 10


async def test_temporary_files_are_private(confined: Confined, root: Path, nonce: str) -> None:
    code, output = await run(confined, f"echo x >/tmp/{nonce} && cat /tmp/{nonce}", root, nonce)
    assert (code, output) == (0, "x\n")
    assert not (Path("/tmp") / nonce).exists()  # noqa: S108 - what is tested


async def test_exit_codes_and_signals_are_returned(confined: Confined, root: Path, nonce: str) -> None:
    assert await confined.run("exit 7", cwd=str(root), nonce=nonce, on_output=CapturedOutput()) == Finished(7)
    assert await confined.run("kill -9 $$", cwd=str(root), nonce=nonce, on_output=CapturedOutput()) == Finished(-9)


async def test_a_cancelled_command_leaves_no_process(confined: Confined, root: Path, nonce: str) -> None:
    taken = CapturedOutput()
    command = "trap '' TERM; (setsid sleep 600 &); echo up; sleep 600; sleep 600"
    running = asyncio.create_task(confined.run(command, cwd=str(root), nonce=nonce, on_output=taken))
    async with asyncio.timeout(30):
        await taken.wait_for(b"up")
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert orphans.find(nonce) == []


async def test_a_command_cannot_run_in_a_directory_outside(confined: Confined, nonce: str) -> None:
    with pytest.raises(ToolError, match="outside"):
        await confined.run("true", cwd="/", nonce=nonce, on_output=CapturedOutput())


@pytest.mark.parametrize("path", [*PROTECTED, ".git/hooks", "./.git/../.git/config"])
async def test_the_file_tools_refuse_protected_paths(confined: Confined, root: Path, path: str) -> None:
    with pytest.raises(ToolError, match="protected"):
        await confined.write_file(path, b"evil", root=str(root))
    await confined.write_file("src/fine", b"good", root=str(root))


async def test_a_repository_behind_a_link_is_refused(way: str, tmp_path: Path, home: Path, nonce: str) -> None:
    work = tmp_path / "linked"
    work.mkdir()
    (work / "elsewhere").mkdir()
    (work / ".git").symlink_to("elsewhere")
    target = Confined(ConfinementPolicy(str(work), home=str(home), own=()), lambda: probe.ProbeResult(way))
    with pytest.raises(ToolError, match="is a link"):
        await target.run("true", cwd=str(work), nonce=nonce, on_output=CapturedOutput())


def test_a_method_that_does_not_confine_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "pretended", lambda _plan, argv, _cwd: list(argv))
    why = probe.probe_method("pretended")
    assert "it does not hold here" in why
    assert "connect" in why
    assert "protected" in why


def test_a_method_that_cannot_start_reports_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "broken", lambda _plan, _argv, _cwd: ["sh", "-c", "echo no namespaces >&2; exit 1"])
    assert probe.probe_method("broken") == "no namespaces"


def test_the_probe_works_with_a_deep_temporary_directory(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert probe.probe_method(way) == ""


async def test_what_only_reads_sees_the_workspace_as_it_is(confined: Confined, root: Path, nonce: str) -> None:
    code, output = await run(confined, "ls -A | sort", root, nonce)
    assert (code, output.split()) == (0, await asyncio.to_thread(lambda: sorted(path.name for path in root.iterdir())))


async def test_what_only_reads_cannot_write(confined: Confined, root: Path, own: Path, nonce: str) -> None:
    before = contents(root)
    attack = f"cat {own}/auth.json; echo x >new; echo evil >>.git/config; mkdir x; touch .git"
    code, output = await run(confined.without_cgroups, f"{attack}; echo own >/tmp/x && cat /tmp/x", root, nonce)
    assert (code, "own" in output.split(), contents(root)) == (0, True, before)
    assert "secret" not in output


def test_the_helpers_import_little_because_each_command_waits_for_them() -> None:
    program = "import sys; sys.path.append(sys.argv[1]); import landlock, supervisor; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, OWN_CODE], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"enum", "json", "re", "signal", "socket", "threading", "typing"}.isdisjoint(loaded)


@pytest.mark.parametrize("command", ["cat /dev/zero | head -c 1", "sh -c 'cat /dev/zero | head -c 1'"])
async def test_a_command_ends_by_a_closed_pipe_as_anywhere_else(confined: Confined, root: Path, command: str) -> None:
    output = CapturedOutput()
    finished = await confined.run(command, cwd=str(root), nonce="f" * 32, on_output=output, timeout=60)
    assert (finished.exit_code, output.output["stderr"]) == (0, b"")


def test_the_interpreter_is_protected_if_the_workspace_contains_it(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python" / "lib").mkdir(parents=True)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "python"))
    policy = ConfinementPolicy(str(tmp_path), home=str(home), own=())
    with policy.active():
        assert str(tmp_path / "python") in policy.plan(network=False).readonly
    with pytest.raises(ToolError, match="protected"):
        policy.check(str(tmp_path / "python" / "lib" / "os.py"))
