"""Confined programs that do anything to files, by chance: outside the workspace nothing changes, ever."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import ProbeResult, probe_method
from buddy.targets.confine.target import Confined
from tests.fuzz.conftest import Budget
from tests.targets.inspect_files import run

STEPS = 120
# What a program does with a random path or two; `p` and `q` are paths, `n` a number.
ACTIONS = (
    "open(p, 'a').write('evil')",
    "open(p, 'r+').truncate(n)",
    "os.unlink(p)",
    "os.rename(p, q)",
    "os.link(p, q)",
    "os.symlink(p, q)",
    "os.mkdir(p)",
    "os.rmdir(p)",
    "os.mkfifo(p)",
    "os.mknod(p, 0o100644)",
    "os.mknod(p, 0o20666, os.makedev(1, 1 + n % 9))",
    "os.chmod(p, n % 0o7777)",
    "os.chown(p, n % 3, n % 3)",
    "os.utime(p, (n, n))",
    "os.setxattr(p, 'user.x', b'x')",
    "os.truncate(p, n % 100)",
    "shutil.rmtree(p)",
    "shutil.copytree(p, q)",
    "shutil.copy(p, q)",
    "os.chdir(p)",
    "os.chroot(p)",
    "os.write(os.open(p, n % 0o4000000), b'evil')",
    "os.write(os.open('/proc/self/fd/%d' % os.open(p, os.O_RDONLY), os.O_RDWR), b'evil')",
    "libc.renameat2(-100, p.encode(), -100, q.encode(), n % 8)",
    "libc.mount(p.encode(), q.encode(), b'tmpfs', n % 65536, None)",
    "libc.mount(p.encode(), q.encode(), None, 4096 | 32 * (n % 2), None)",
    "libc.umount2(p.encode(), n % 16)",
    "libc.unshare(n % 2**31)",
    "libc.pivot_root(p.encode(), q.encode())",
    "libc.syscall(n % 470, os.open(p, os.O_PATH), p.encode(), n, q.encode(), n, 0)",
    "libc.syscall(n % 470, -100, p.encode(), -100, q.encode(), n % 64, 0)",
    "libc.syscall(n % 470, p.encode(), q.encode(), n % 4096, n, 0, 0)",
    "git(p)",
)
# Calls that end, replace or stop the program itself, instead of doing something.
TIRING = {
    15,
    22,
    23,
    32,
    33,
    34,
    35,
    57,
    58,
    59,
    60,
    61,
    62,
    130,
    200,
    219,
    231,
    234,
    247,
    270,
    271,
    281,
    297,
    322,
    441,
}
PROGRAM = """
import ctypes, os, random, shutil, signal, subprocess, sys
chance = random.Random(int(sys.argv[1]))
paths, actions, tiring = {paths!r}, {actions!r}, {tiring!r}
libc = ctypes.CDLL(None, use_errno=True)
def stop(*_): raise InterruptedError
signal.signal(signal.SIGALRM, stop)
def git(p):
    subprocess.run(['git', '-C', p, chance.choice(['init', 'status', 'gc', 'stash'])], capture_output=True, timeout=5)
for _ in range({steps}):
    action, n = chance.choice(actions), chance.randrange(2**31)
    if 'syscall(n' in action and n % 470 in tiring:
        continue
    p, q = chance.choice(paths), chance.choice(paths)
    if chance.random() < 0.3:
        p += chance.choice(['/x', '/..', '/.git/config', '/../out', '/.', '/hooks/post-checkout', '/file'])
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        exec(action)
    except BaseException:
        pass
"""


class Snapshot:
    """Everything about the files below some directories that a program could change."""

    def __init__(self, *places: Path) -> None:
        self.facts = {str(path): self._facts(path) for place in places for path in (place, *place.rglob("*"))}

    def _facts(self, path: Path) -> tuple[object, ...]:
        info = path.lstat()
        content = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        link = path.readlink() if stat.S_ISLNK(info.st_mode) else None
        return info.st_mode, info.st_uid, info.st_gid, info.st_ino, info.st_mtime_ns, info.st_ctime_ns, content, link


class World:
    """A workspace with protected parts, and what lies around it."""

    def __init__(self, place: Path) -> None:
        self.root, self.outside, self.home = place / "work", place / "outside", place / "home"
        for path in (self.outside / "dir", self.home / ".ssh", self.root / "src", self.root / "sub"):
            path.mkdir(parents=True)
        for path in (self.outside / "file", self.outside / "dir" / "file", self.home / ".bashrc", self.root / "file"):
            path.write_text("as it was")
        for path in (self.root, self.root / "sub"):
            subprocess.run(["git", "init", "-q", "."], cwd=path, check=True)
        (self.root / "buddy.toml").write_text("mine")
        (self.root / "way out").symlink_to(self.outside)

    @property
    def protected(self) -> Snapshot:
        git = [self.root / ".git", self.root / "sub" / ".git"]
        inside = [path / name for path in git for name in ("config", "hooks")]
        snapshot = Snapshot(self.outside, self.home, self.root / "buddy.toml", *inside)
        for place in ("/", "/etc", "/etc/passwd", "/dev", "/dev/null", "/dev/zero", "/sys", "/usr", "/home", "/root"):
            info = Path(place).lstat()
            snapshot.facts[place] = (info.st_mode, info.st_uid, info.st_gid)
        return snapshot

    def paths(self) -> list[str]:
        outside = [self.outside, self.outside / "file", self.outside / "dir", self.home, self.home / ".ssh"]
        inside = ["", "src", "sub", "file", ".git", ".git/config", ".git/hooks", ".git/HEAD", "sub/.git", "buddy.toml"]
        inside += ["way out", "way out/file", "new", "new/deep", ".vscode", "HEAD", "objects", "refs", "config"]
        others = ["/", "/etc/passwd", "/tmp", "/tmp/x", "/proc/self/root", "/proc/1/root", "/dev/null", "/sys", "."]  # noqa: S108 - private ones
        return [*map(str, outside), *(str(self.root / name) for name in inside), *others]

    def program(self) -> str:
        return PROGRAM.format(paths=self.paths(), actions=ACTIONS, tiring=TIRING, steps=STEPS)


@pytest.fixture(params=["bubblewrap", "landlock"])
def way(request: pytest.FixtureRequest) -> str:
    why = probe_method(request.param)
    if why:
        pytest.skip(why)
    return request.param


@pytest.mark.slow
async def test_nothing_outside_ever_changes(way: str, fuzz: Budget, tmp_path: Path) -> None:
    fuzz.seconds /= 2  # for each method
    changed = 0
    for _ in fuzz:
        place = tmp_path / f"world{changed}"
        world = World(place)
        policy = ConfinementPolicy(str(world.root), home=str(world.home), own=())
        target = Confined(policy, lambda: ProbeResult(way), grace=0.2)
        before, inside = world.protected, names_in(world.root)
        number = fuzz.random.randrange(2**32)
        (world.root / "program.py").write_text(world.program())
        await run(target, f"{sys.executable} program.py {number}", world.root, f"fuzz{number}", timeout=60)
        assert world.protected.facts == before.facts, f"program {number}"
        changed += names_in(world.root) != inside
        make_removable(place)
        shutil.rmtree(place)
    assert changed  # or it never did anything


def test_the_same_programs_change_what_is_outside_when_nothing_confines_them(tmp_path: Path) -> None:
    """They run without the calls that could reach the machine itself."""
    world = World(tmp_path / "world")
    before = world.protected.facts
    mine = str(tmp_path)
    paths = [path for path in world.paths() if path.startswith(mine)]
    actions = [action for action in ACTIONS if not action.startswith(("libc.", "os.ch", "git", "os.write"))]
    text = PROGRAM.format(paths=paths, actions=actions, tiring=TIRING, steps=STEPS)
    for number in range(3):
        subprocess.run([sys.executable, "-c", text, str(number)], cwd=tmp_path, check=False, timeout=120)
    assert world_changed(world, before)


def world_changed(world: World, before: dict[str, tuple[object, ...]]) -> bool:
    try:
        return world.protected.facts != before
    except OSError:
        return True


def names_in(place: Path) -> set[str]:
    return {os.path.join(base, name) for base, names, files in os.walk(place) for name in (*names, *files)}  # noqa: PTH118 - text


def make_removable(place: Path) -> None:
    for base, names, _ in os.walk(place):
        for name in names:
            path = Path(base, name)
            if not path.is_symlink():
                path.chmod(0o700)
