"""What a hostile command tries from inside, on each way to confine that holds here."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.targets import orphans
from buddy.targets.confine import landlock
from buddy.targets.confine.methods import METHODS
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult
from buddy.targets.confine.target import Confined
from tests.harness.installed import need
from tests.targets.captured_output import CapturedOutput
from tests.targets.inspect_files import contents, run

GIT = ("-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "protocol.file.allow=always")


def git(*words: str, cwd: Path) -> None:
    need("git")
    subprocess.run(["git", *GIT, *words], cwd=cwd, check=True, capture_output=True)


def python(program: str) -> str:
    """A command that runs a program of the standard library."""
    return f"{sys.executable} -I -c {program!r}"


def fenced(way: str, root: Path, home: Path) -> Confined:
    return Confined(ConfinementPolicy(str(root), home=str(home), own=()), lambda: ProbeResult(way), grace=0.2)


# --- the network ---


TALKERS = {
    "tcp": "socket.create_connection(('127.0.0.1', {port}), 2)",
    "tcp over ipv6": "socket.socket(socket.AF_INET6).connect(('::1', {port}))",
    "tcp to a mapped address": "socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', {port}))",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
    "names": "socket.getaddrinfo('example.com', 80)",
    "raw": "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).sendto(b'x' * 8, ('127.0.0.1', 0))",
    "packets": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 768).bind(('eth0', 0))",
}


@pytest.mark.parametrize("how", TALKERS)
async def test_nothing_is_reached_over_the_network(
    confined: Confined, root: Path, nonce: str, listener: int, how: str
) -> None:
    code, output = await run(confined, python("import socket; " + TALKERS[how].format(port=listener)), root, nonce)
    assert code != 0
    assert "rror" in output


PROGRAMS = [
    "curl -m 3 http://127.0.0.1:{port}",
    "busybox wget -T 3 -O- http://127.0.0.1:{port}",
    "busybox ping -c 1 -W 2 127.0.0.1",
    "busybox nslookup example.com 127.0.0.1",
    "busybox nc -w 2 127.0.0.1 {port}",
]


@pytest.mark.parametrize("program", PROGRAMS)
async def test_the_usual_programs_reach_nothing(
    confined: Confined, root: Path, nonce: str, listener: int, program: str
) -> None:
    need(program.partition(" ")[0])
    code, _ = await run(confined, f"timeout 10 {program.format(port=listener)}", root, nonce)
    assert code != 0


async def test_a_network_that_was_allowed_lasts_for_that_command_alone(
    confined: Confined, root: Path, nonce: str, listener: int
) -> None:
    connect = f"exec 3<>/dev/tcp/127.0.0.1/{listener}"
    assert (await run(confined.with_network(), connect, root, nonce))[0] == 0
    assert (await run(confined, connect, root, nonce))[0] != 0
    code, _ = await run(confined.with_network(), "echo evil >.git/config", root, nonce)
    assert code != 0


@pytest.fixture
def door() -> Generator[Path]:
    """A socket of another program, as a container engine, a key agent or this runtime itself has one."""
    # Not below /tmp, which a command sees as an empty one of its own: that alone would hide it.
    place = Path(f"/var/lib/buddy-test-{os.getpid()}.sock") if os.geteuid() == 0 else Path.home() / ".buddy-test.sock"
    with listening(place):
        yield place


@contextmanager
def listening(place: Path) -> Generator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(place))
        server.listen()
        try:
            yield
        finally:
            place.unlink()


# In two pieces: a newer Python quotes its program where it fails.
KNOCK = "import socket; socket.socket(socket.AF_UNIX).connect({path!r}); print('thr' + 'ough')"


async def test_a_socket_in_the_file_system_does_not_answer(
    confined: Confined, root: Path, nonce: str, door: Path
) -> None:
    code, output = await run(confined, python(KNOCK.format(path=str(door))), root, nonce)
    assert (code, "through" in output) == (1, False)


async def test_a_socket_in_the_workspace_does_not_answer_either(confined: Confined, root: Path, nonce: str) -> None:
    with listening(root / "s"):
        code, output = await run(confined, python(KNOCK.format(path="s")), root, nonce)
        assert (code, "through" in output) == (1, False)


async def test_an_abstract_socket_does_not_answer(confined: Confined, root: Path, nonce: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0{nonce}")
        server.listen()
        code, output = await run(confined, python(KNOCK.format(path=f"\0{nonce}")), root, nonce)
    assert (code, "through" in output) == (1, False)


# --- other processes ---


async def test_our_own_process_is_out_of_reach(confined: Confined, root: Path, nonce: str) -> None:
    own = os.getpid()
    tries = [
        f"kill -0 {own}",
        f"cat /proc/{own}/environ",
        f"ls /proc/{own}/root/etc",
        f"ls -l /proc/{own}/fd",
        f"cat /proc/{own}/mem",
        f"ls /proc/{os.getppid()}/cwd",
    ]
    for attempt in tries:
        code, _ = await run(confined, attempt, root, nonce)
        assert code != 0, attempt


async def test_no_process_outside_can_be_traced(confined: Confined, root: Path, nonce: str) -> None:
    program = (
        "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "
        f"print('traced' if libc.ptrace(16, {os.getpid()}, 0, 0) == 0 else 'refused')"
    )
    assert (await run(confined, python(program), root, nonce))[1] == "refused\n"


async def test_what_is_left_in_the_background_ends_with_its_command(confined: Confined, root: Path, nonce: str) -> None:
    command = "(setsid env -i sh -c 'trap \"\" TERM HUP; sleep 600; sleep 600' >/dev/null 2>&1 &); sleep 0.2; echo up"
    marker = root / "alive"
    writer = f"(setsid env -i sh -c 'while :; do echo x >>{marker}; sleep 0.05; done' >/dev/null 2>&1 &); {command}"
    assert (await run(confined, writer, root, nonce))[1] == "up\n"
    assert orphans.find(nonce) == []
    before = marker.stat().st_size
    await asyncio.sleep(0.3)
    assert marker.stat().st_size == before


async def test_nothing_open_is_inherited(confined: Confined, root: Path, nonce: str) -> None:
    with (root / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        _, output = await run(confined, "ls -l /proc/self/fd | grep -c open; readlink /proc/self/fd/0", root, nonce)
    assert output == "0\n/dev/null\n"


async def test_secrets_of_the_environment_are_not_passed_on(
    confined: Confined, root: Path, nonce: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-9b1d")
    monkeypatch.setenv("GITHUB_TOKEN", "canary-77aa")
    monkeypatch.setenv("BUDDY_API_KEY", "canary-cc01")
    monkeypatch.setenv("HARMLESS", "stays")
    _, output = await run(confined, "env; cat /proc/*/environ | tr '\\0' '\\n'", root, nonce)
    assert "canary" not in output
    assert "HARMLESS=stays" in output


async def test_there_is_no_terminal_to_type_into(confined: Confined, root: Path, nonce: str) -> None:
    program = "import fcntl, os, termios; fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), termios.TIOCSTI, b'x')"
    code, output = await run(confined, python(program), root, nonce)
    assert code == 1
    assert "Error" in output


async def test_no_device_but_the_harmless_ones_is_there(confined: Confined, root: Path, nonce: str) -> None:
    code, output = await run(
        confined, "ls /dev; ls /dev/pts /dev/shm; echo x >/dev/null && head -c1 /dev/urandom >/dev/null", root, nonce
    )
    assert code == 0
    listed = set(output.split())
    assert not listed & {"mem", "kmsg", "sda", "vda", "nvme0n1", "loop0", "fuse", "kvm", "net"}
    assert not any(name.isdigit() for name in listed)


async def test_shared_memory_is_private(confined: Confined, root: Path, nonce: str) -> None:
    outside = Path("/dev/shm") / nonce  # noqa: S108 - what is tested
    outside.write_text("theirs")
    try:
        code, output = await run(confined, f"cat {outside}; echo x >/dev/shm/{nonce}-mine", root, nonce)
    finally:
        outside.unlink()
    assert "theirs" not in output
    assert code == 0
    assert not outside.with_name(f"{nonce}-mine").exists()


async def test_the_kernel_is_not_configured(confined: Confined, root: Path, nonce: str) -> None:
    for place in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
        "/sys/power/state",
    ):
        # Opened, not written: where it does not hold, nothing must change.
        code, _ = await run(confined, f": >>{place}", root, nonce)
        assert code != 0, place


async def test_no_power_is_left_and_none_can_be_gained(confined: Confined, root: Path, nonce: str) -> None:
    _, output = await run(confined, "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status", root, nonce)
    facts = dict(line.split() for line in output.splitlines())
    assert facts.pop("NoNewPrivs:") == "1"
    assert {int(value, 16) for value in facts.values()} == {0}


async def test_more_namespaces_give_no_way_out(confined: Confined, root: Path, home: Path, nonce: str) -> None:
    need("unshare")
    inner = (
        "umount -l .git/hooks; umount -R .git; mount -o remount,rw,bind .git/hooks; mount -o remount,rw,bind /; "
        f"echo evil >.git/hooks/x; echo evil >{home}/x; mount --move .git /mnt; echo evil >.git/config; true"
    )
    for flags in ("-Urm", "-UrmpfC", "-m"):
        await run(confined, f"unshare {flags} sh -c '{inner}'", root, nonce)
    assert contents(root) == {".git/config": b"[core]\n"}
    assert contents(home) == {}


# --- files ---


async def test_a_link_leads_nowhere(confined: Confined, root: Path, home: Path, own: Path, nonce: str) -> None:
    (home / ".bashrc").write_text("mine")
    attacks = (
        f"ln -s {home} h; echo evil >h/.bashrc; ln -s {own}/auth.json a; cat a; ln {own}/auth.json b; cat b; "
        f"ln {home}/.bashrc c && echo evil >c; ln -s .git g; echo evil >g/config; "
        "ln -s config .git/config.worktree; true"
    )
    _, output = await run(confined, attacks, root, nonce)
    assert "secret" not in output
    assert contents(home) == {".bashrc": b"mine"}
    assert (root / ".git" / "config").read_text() == "[core]\n"


async def test_swapping_directories_in_a_loop_protects_as_well(
    confined: Confined, root: Path, home: Path, nonce: str
) -> None:
    command = (
        f"for i in $(seq 200); do mv .git x; ln -s {home} .git; rm -f .git; mv x .git; mkdir -p .git/hooks; "
        "echo evil >.git/hooks/p; mv .git/hooks .git/h; echo evil >.git/config; done 2>/dev/null; true"
    )
    await run(confined, command, root, nonce)
    assert contents(root) == {".git/config": b"[core]\n"}
    assert contents(home) == {}


ELSEWHERE = {
    "common directory": "mkdir -p evil/hooks; echo ../evil >.git/commondir",
    "worktree's configuration": "echo '[core] hooksPath = evil' >.git/config.worktree",
    "a new repository": "rm -rf .git; mv .git old; git init -q .; echo evil >.git/hooks/pre-commit",
    "git itself": "git config core.hooksPath evil; git config --global core.hooksPath e; git config include.path ../e",
    "templates": "cp -r .git other && mv .git old; mv other .git",
}


@pytest.mark.parametrize("how", ELSEWHERE)
async def test_git_is_not_led_elsewhere(way: str, tmp_path: Path, home: Path, nonce: str, how: str) -> None:
    work = tmp_path / "repository"
    work.mkdir()
    git("init", "-q", ".", cwd=work)
    before = {path: data for path, data in contents(work).items() if path.startswith(".git/")}
    await run(fenced(way, work, home), f"{ELSEWHERE[how]}; true", work, nonce)
    after = contents(work)
    assert {path: after.get(path) for path in before} == before
    assert not {".git/commondir", ".git/config.worktree", ".git/hooks/pre-commit"} & set(after)


async def test_git_works_inside_and_adds_nothing_of_ours(way: str, tmp_path: Path, home: Path, nonce: str) -> None:
    work = tmp_path / "repository"
    work.mkdir()
    git("init", "-q", ".", cwd=work)
    words = " ".join(GIT)
    command = (
        f"echo x >x && git status --short && git add -A && git {words} commit -qm one && git show --stat --format="
    )
    code, output = await run(fenced(way, work, home), command, work, nonce)
    assert (code, output) == (0, "?? x\n x | 1 +\n 1 file changed, 1 insertion(+)\n")
    assert sorted(path.name for path in work.iterdir()) == [".git", "x"]


async def test_hooks_that_lie_in_the_workspace_are_protected(way: str, tmp_path: Path, home: Path, nonce: str) -> None:
    work = tmp_path / "repository"
    (work / "tools" / "hooks").mkdir(parents=True)
    (work / "tools" / "hooks" / "pre-commit").write_text("good")
    (work / "shared.config").write_text("[alias]\n")
    git("init", "-q", ".", cwd=work)
    git("config", "core.hooksPath", "tools/hooks", cwd=work)
    git("config", "include.path", "../shared.config", cwd=work)
    target = fenced(way, work, home)
    attack = (
        "echo evil >tools/hooks/pre-commit; mv tools t; rm -rf tools; echo evil >shared.config; "
        "mv shared.config s; true"
    )
    await run(target, attack, work, nonce)
    assert (work / "tools" / "hooks" / "pre-commit").read_text() == "good"
    assert (work / "shared.config").read_text() == "[alias]\n"
    with pytest.raises(ToolError, match="protected"):
        await target.write_file("tools/hooks/pre-commit", b"evil", root=str(work))


async def test_repositories_inside_the_workspace_are_protected(
    way: str, tmp_path: Path, home: Path, nonce: str
) -> None:
    work = tmp_path / "many"
    for name in ("one", "group/two", "source"):
        (work / name).mkdir(parents=True)
        git("init", "-q", ".", cwd=work / name)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=work / "source")
    git("submodule", "add", "-q", str(work / "source"), "sub", cwd=work / "one")
    before = {path: data for path, data in contents(work).items() if ".git" in path}
    attack = (
        "for r in one group/two one/.git/modules/sub; do [ -d $r/.git ] && r=$r/.git; echo evil >$r/config; "
        "echo evil >$r/hooks/post-checkout; echo ../../evil >$r/commondir; done; "
        "echo 'gitdir: /x' >one/sub/.git; rm -rf group; mv one 1; true"
    )
    target = fenced(way, work, home)
    await run(target, attack, work, nonce)
    kept = contents(work)
    dangerous = {
        path: data for path, data in before.items() if path.endswith(("config", "sub/.git")) or "hooks/" in path
    }
    assert {path: kept.get(path) for path in dangerous} == dangerous
    assert not [path for path in kept if path.endswith(("commondir", "post-checkout"))]
    with pytest.raises(ToolError, match="protected"):
        await target.write_file("group/two/.git/hooks/x", b"evil", root=str(work))


async def test_a_worktree_cannot_be_pointed_elsewhere(way: str, tmp_path: Path, home: Path, nonce: str) -> None:
    main, tree = tmp_path / "main", tmp_path / "tree"
    main.mkdir()
    git("init", "-q", ".", cwd=main)
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=main)
    git("worktree", "add", "-q", str(tree), cwd=main)
    pointer = (tree / ".git").read_text()
    attack = f"echo gitdir: evil >.git; rm .git; mv .git x; echo evil >{main}/.git/hooks/x; true"
    await run(fenced(way, tree, home), attack, tree, nonce)
    assert (tree / ".git").read_text() == pointer
    assert not (main / ".git" / "hooks" / "x").exists()


STARTED_LATER = [
    ".envrc",
    ".mcp.json",
    ".opencode/plugin/x.js",
    ".factory/hooks.json",
    ".vscode/settings.json",
    ".vscode/launch.json",
    "agent.toml",
]


@pytest.mark.parametrize("path", STARTED_LATER)
async def test_what_other_programs_would_run_is_not_written(
    confined: Confined, root: Path, nonce: str, path: str
) -> None:
    before = contents(root)
    code, _ = await run(confined, f"mkdir -p $(dirname {path}); echo evil >{path}", root, nonce)
    assert code != 0
    assert contents(root) == before


async def test_two_commands_at_once_keep_each_others_protection(
    way: str, tmp_path: Path, home: Path, nonce: str
) -> None:
    work = tmp_path / "bare"
    work.mkdir()
    first, second = fenced(way, work, home), fenced(way, work, home)
    taken = CapturedOutput()
    waiting = (
        "echo up; until [ -e go ]; do sleep 0.02; done; "
        "mkdir -p .git/hooks; echo evil >buddy.toml; echo evil >.git/hooks/x; true"
    )
    running = asyncio.create_task(first.run(waiting, cwd=str(work), nonce=nonce, on_output=taken))
    await taken.wait_for(b"up")
    await run(second, "true", work, f"{nonce}2")
    (work / "go").touch()
    await running
    assert sorted(path.name for path in work.iterdir()) == ["go"]


async def test_a_loop_that_is_busy_is_not_held_up_by_the_proof(root: Path, home: Path) -> None:
    loop, inside, let_go = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def slow() -> ProbeResult:
        loop.call_soon_threadsafe(inside.set)
        let_go.wait(30)
        return ProbeResult(reason="tried")

    verifying = asyncio.create_task(
        Confined(ConfinementPolicy(str(root), home=str(home), own=()), slow).verify(str(root))
    )
    await inside.wait()
    assert not verifying.done()
    let_go.set()
    with pytest.raises(ToolError, match="cannot be proven"):
        await verifying


@pytest.fixture
def strangers_place() -> Generator[Path]:
    """A workspace of an ordinary user's, where that user can reach it."""
    need("setpriv", "/usr/bin/python3")
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    place = Path(tempfile.mkdtemp(prefix="buddy-user-"))
    place.chmod(0o755)
    (place / "work" / ".git" / "hooks").mkdir(parents=True)
    for path in (place / "work").rglob("*"):
        os.chown(path, 65534, 65534)
    os.chown(place / "work", 65534, 65534)
    shutil.copy(landlock.__file__, place)
    try:
        yield place
    finally:
        shutil.rmtree(place)


def test_it_holds_for_an_ordinary_user_as_well(way: str, strangers_place: Path) -> None:
    work = strangers_place / "work"
    attack = (
        "echo in >inside; echo x >/dev/null && echo heard; echo evil >.git/hooks/x; echo evil >.git/config; "
        ": >>/proc/sys/kernel/core_pattern; echo x >/dev/shm/x && echo shared; echo evil >/var/tmp/../../etc/x; true"
    )
    policy = ConfinementPolicy(str(work), home=str(strangers_place), own=())
    with policy.active():
        words = METHODS[way](policy.plan(network=False), ["bash", "-c", attack], str(work))
        if way == "landlock":
            # Its helper needs the standard library alone, and this interpreter may be out of that user's reach.
            words[0], words[3] = "/usr/bin/python3", str(strangers_place / "landlock.py")
        user = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]
        done = subprocess.run([*user, *words], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "heard\nshared\n"), done.stderr
    assert contents(work) == {"inside": b"in\n"}
