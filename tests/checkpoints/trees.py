"""Pictures of a workspace, and ways to change one."""

import os
import stat
import subprocess
from pathlib import Path

Picture = dict[str, tuple[object, ...]]


def picture(folder: Path) -> Picture:
    """Every path below a folder with its kind, mode and content, git's own directories left out."""
    found: Picture = {}
    for place, directories, files in os.walk(folder):
        directories[:] = [name for name in directories if name != ".git"]
        for name in [*directories, *files]:
            path = Path(place, name)
            info = path.lstat()
            key = os.path.relpath(path, folder)
            mode = stat.S_IMODE(info.st_mode)
            if stat.S_ISLNK(info.st_mode):
                found[key] = ("link", os.readlink(path))  # noqa: PTH115 - any bytes
            elif stat.S_ISDIR(info.st_mode):
                found[key] = ("directory", mode)
            elif stat.S_ISREG(info.st_mode):
                found[key] = ("file", mode, path.read_bytes())
    return found


def git(folder: Path, *words: str) -> str:
    """Run git as a user would, with nothing configured."""
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    command = ["git", "-c", "protocol.file.allow=always", *words]
    return subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


def make_repository(folder: Path) -> None:
    """A repository whose files are all committed, and an index that git trusts."""
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    for path in folder.rglob("*"):
        if ".git" not in path.parts and path.is_file() and not path.is_symlink():
            os.utime(path, (1_000_000_000, 1_000_000_000))
    git(folder, "status")


def repository_state(folder: Path) -> dict[str, object]:
    """What must stay bit-identical in a user's repository."""
    names = ("HEAD", "index", "config", "packed-refs", "logs/HEAD", "refs/stash")
    common = Path(git(folder, "rev-parse", "--absolute-git-dir").strip())
    files = {name: (common / name).read_bytes() if (common / name).exists() else None for name in names}
    objects = sorted(str(path.relative_to(common)) for path in (common / "objects").rglob("*") if path.is_file())
    refs = git(folder, "for-each-ref")
    return {**files, "objects": objects, "refs": refs, "fsck": git(folder, "fsck", "--full")}
