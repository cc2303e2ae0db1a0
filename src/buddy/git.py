"""Every git that Buddy starts by itself.

A repository may arrive with a prepared `.git`: an archive, a shared disk, something a model wrote. Git runs programs
that its configuration names (fsmonitor, filters, text conversion, hooks, pagers, …), so it is not shown that
configuration at all: it gets a directory of its own, made for one use, that links to the repository's objects,
references and index, and has a configuration with the few settings that are needed to read them.

Invariants: git never opens the repository's configuration, hooks or the user's configuration; a setting is copied only
if its name and its value are on a list; a bare repository inside a work tree is not a repository; nothing is fetched
and nothing is written. `run_git` is the exception, for what the user asks for by name.
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from buddy.errors import UserError

SECONDS = 5.0
OBJECT_SECONDS = 60.0
LARGEST_CONFIG = 1 << 20
MOST_SHARED_INDEXES = 100
CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"

# What reading a repository correctly depends on, and how its changes are shown. No value names a program or a file.
_WORD = re.compile(
    r"true|false|yes|no|on|off|[0-9]{1,9}|input|lf|crlf|native|warn|sha1|sha256|files|reftable|default|minimal|normal|all"
)
_NAME = re.compile(r"[^\x00-\x1f\x7f\\\"]+")
_REF = re.compile(r"\+?[A-Za-z0-9_][A-Za-z0-9_./@#*:-]*|\.")
_WORDS = (
    *("core.repositoryformatversion", "extensions.objectformat", "extensions.refstorage", "core.filemode"),
    *("core.symlinks", "core.ignorecase", "core.precomposeunicode", "core.autocrlf", "core.eol", "core.safecrlf"),
    *("core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse", "core.quotepath", "core.checkstat"),
    *("core.trustctime", "core.protecthfs", "core.protectntfs", "diff.context", "diff.renames", "diff.noprefix"),
    *("diff.mnemonicprefix", "status.showuntrackedfiles", "status.relativepaths", "status.renames"),
)
_SETTINGS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(_WORDS, _WORD),
    "diff.algorithm": re.compile(r"default|myers|minimal|patience|histogram"),
    "branch.*.remote": _REF,
    "branch.*.merge": _REF,
    "remote.*.fetch": _REF,
}
# Not needed with a configuration of our own; they hold should git ever read another one.
_SAFE_SETTINGS = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.untrackedCache=false"),
    *("protocol.allow=never", "credential.helper=", "safe.bareRepository=explicit", "submodule.recurse=false"),
    *("diff.external=", "diff.submodule=short", "status.submoduleSummary=false", "diff.autoRefreshIndex=false"),
    *("maintenance.auto=false", "gc.auto=0"),
)


class Repository(NamedTuple):
    """A work tree, its own git directory, and the one that holds objects and references."""

    work_tree: Path
    directory: Path
    common: Path


class Git(NamedTuple):
    """How to start git on one repository."""

    program: str
    folder: str
    excludes: str
    environment: Mapping[str, str]

    def command(self, *words: str) -> list[str]:
        settings = [word for one in (*_SAFE_SETTINGS, f"core.excludesFile={self.excludes}") for word in ("-c", one)]
        return [self.program, "-C", self.folder, "--no-pager", "--no-optional-locks", *settings, *words]

    def list_files(self) -> list[str]:
        """The command that lists files, relative to the folder: tracked ones and new ones that are not ignored."""
        return self.command("ls-files", "-coz", "--exclude-standard", "--deduplicate")

    def show_status(self) -> list[str]:
        return self.command("status", "--short", "--branch", "--ignore-submodules=dirty")

    def show_changes(self, since: str = "HEAD") -> list[str]:
        """The command that shows what changed since a commit or a tree."""
        return self.command("diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", since, "--")

    def find_head(self) -> list[str]:
        """The command that fails in a repository without commits."""
        return self.command("rev-parse", "--quiet", "--verify", "HEAD^{commit}")

    def find_empty_tree(self) -> list[str]:
        """The command that prints the id of the tree before the first commit."""
        return self.command("hash-object", "-t", "tree", "--stdin")

    def list_new_files(self) -> list[str]:
        """The command that lists files that git does not know and is not to ignore."""
        return self.command("ls-files", "--others", "--exclude-standard", "-z")

    def show_new_file(self, name: str) -> list[str]:
        """The command that shows a file as if all of it were added; it exits with 1."""
        return self.command("diff", "--no-ext-diff", "--no-textconv", "--no-index", "--", os.devnull, name)


@contextlib.contextmanager
def open_repository(folder: str) -> Generator[Git]:
    """Git for the repository that contains a folder, while the context is open. UserError if there is none."""
    program = find_git()
    if program is None:
        raise UserError("git is not installed", hint="install git, or add its folder to PATH")
    repository = find_repository(folder)
    if repository is None:
        raise UserError(f"{folder} is not a git repository", hint="create one with: git init")
    with tempfile.TemporaryDirectory(prefix="buddy-git-") as name:
        view = Path(name)
        _make_view(view, repository)
        environment = _environment(view, repository)
        own = _user_settings(program, environment)
        settings = [*_settings_of(own), *_settings_of(_repository_settings(repository, program, environment))]
        (view / "config").write_text(CONFIG + "".join(map(_config_line, settings)), errors="surrogateescape")
        yield Git(program, folder, _excludes(own), environment)


def read_objects(places: Sequence[str], ids: Sequence[str]) -> dict[str, bytes]:
    """The contents of blobs in some object directories, as far as they are there. No repository is involved."""
    program = find_git()
    if program is None or not ids or not places:
        return {}
    with tempfile.TemporaryDirectory(prefix="buddy-git-") as name:
        view = Path(name)
        (view / "refs").mkdir()
        (view / "HEAD").write_text("ref: refs/heads/none\n")
        (view / "config").write_text(CONFIG)
        nowhere = Repository(view, view, view)
        environment = {**_environment(view, nowhere), "GIT_OBJECT_DIRECTORY": places[0]}
        environment["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.pathsep.join(_quoted(one) for one in places[1:])
        wanted = "".join(f"{one}\n" for one in ids).encode()
        command = Git(program, name, "", environment).command("cat-file", "--batch")
        return _parse_objects(_run(command, environment, wanted, seconds=OBJECT_SECONDS))


def run_git(folder: str, *words: str) -> str:
    """Git as the user would run it, because the user asked for what it does; UserError with its words if it fails.

    The repository's configuration applies, as it decides what a checkout contains; hooks and file monitors do not run.
    """
    program = find_git()
    if program is None:
        raise UserError("git is not installed", hint="install git, or add its folder to PATH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")
    done = subprocess.run(
        [program, "-C", folder, "--no-pager", *settings, *words],
        env={**environment, "PATH": _absolute_path(), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise UserError(f"git {words[0]} failed: {said[-500:] or f'exit code {done.returncode}'}")
    return done.stdout


def _quoted(place: str) -> str:
    """As git reads a list of directories: in quotes, so that a separator in a name has no meaning."""
    return '"' + place.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _parse_objects(output: bytes) -> dict[str, bytes]:
    """From `cat-file --batch`: a line with id, type and size before each content; other lines for what is missing."""
    found: dict[str, bytes] = {}
    at = 0
    while (end := output.find(b"\n", at)) >= 0:
        words = output[at:end].split()
        at = end + 1
        if len(words) == 3 and words[1] == b"blob":
            size = int(words[2])
            found[words[0].decode()] = output[at : at + size]
            at += size + 1
    return found


def find_git() -> str | None:
    """The path of git, never through a relative entry of PATH: that would be the workspace's own."""
    return shutil.which("git", path=_absolute_path())


def _absolute_path() -> str:
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if entry.startswith("/"))


def find_repository(folder: str) -> Repository | None:
    """The repository whose work tree contains a folder: the nearest `.git` above it that git could use."""
    start = Path(os.path.realpath(folder))
    for place in (start, *start.parents):
        directory = _git_directory(place / ".git")
        if directory is not None:
            common = _pointer(directory / "commondir", "") or directory
            return Repository(place, directory, common)
    return None


def current_branch(folder: str) -> str:
    """The branch of the repository around a folder, or the start of the commit; empty outside of one. Runs nothing."""
    repository = find_repository(folder)
    head = _read(repository.directory / "HEAD").strip() if repository else ""
    return head.removeprefix("ref: ").removeprefix("refs/heads/") if head.startswith("ref: ") else head[:8]


def _git_directory(path: Path) -> Path | None:
    """The directory itself, or the one that a `.git` file of a worktree or a submodule names."""
    directory = path if path.is_dir() else _pointer(path, "gitdir: ")
    return directory if directory is not None and _read(directory / "HEAD") else None


def _pointer(path: Path, before: str) -> Path | None:
    text = _read(path)
    if not text.startswith(before) or not text.strip():
        return None
    return Path(os.path.normpath(path.parent / text.removeprefix(before).rstrip("\n")))


# --- what git is shown ------------------------------------------------------------------------------------------------


def _make_view(view: Path, repository: Repository) -> None:
    (view / "HEAD").write_text(_read(repository.directory / "HEAD"), errors="surrogateescape")
    (view / "config").write_text(CONFIG)
    for name in ("refs", "packed-refs", "reftable", "info"):
        if (repository.common / name).exists():
            (view / name).symlink_to(repository.common / name)
    if not (view / "refs").exists():
        (view / "refs").mkdir()
    for count, shared in enumerate(repository.directory.glob("sharedindex.*")):
        if count < MOST_SHARED_INDEXES:
            (view / shared.name).symlink_to(shared)


def _environment(view: Path, repository: Repository) -> dict[str, str]:
    """This process's environment without anything that configures git, and where the parts of the repository are."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "SSH_ASKPASS"))}
    return {
        **kept,
        "PATH": _absolute_path(),
        "HOME": str(view),
        "XDG_CONFIG_HOME": str(view),
        "GIT_DIR": str(view),
        "GIT_WORK_TREE": str(repository.work_tree),
        "GIT_INDEX_FILE": str(repository.directory / "index"),
        "GIT_OBJECT_DIRECTORY": str(repository.common / "objects"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        "GIT_ASKPASS": "false",
    }


# --- settings ---------------------------------------------------------------------------------------------------------


def _settings_of(listed: bytes) -> list[tuple[str, str]]:
    """The settings that may be copied, from `git config --list -z`."""
    settings: list[tuple[str, str]] = []
    for entry in listed.decode(errors="surrogateescape").split("\0"):
        name, separator, value = entry.partition("\n")
        section, _, last = name.rpartition(".")
        general = f"{section.partition('.')[0]}.*.{last}" if "." in section else name
        pattern = _SETTINGS.get(general)
        if separator and pattern is not None and pattern.fullmatch(value) and _NAME.fullmatch(name):
            settings.append((name, value))
    return settings


def _config_line(setting: tuple[str, str]) -> str:
    name, value = setting
    section, _, last = name.rpartition(".")
    group, _, rest = section.partition(".")
    header = f'{group} "{rest}"' if rest else group
    return f'[{header}]\n\t{last} = "{value}"\n'


def _repository_settings(repository: Repository, program: str, environment: Mapping[str, str]) -> bytes:
    """What its configuration says, without the files it includes."""
    texts = [_read(place / name) for place, name in _configs(repository)]
    text = "\n".join(texts).encode(errors="surrogateescape")
    return _run([program, "config", "--file", "-", "--no-includes", "--list", "-z"], environment, text)


def _configs(repository: Repository) -> Iterator[tuple[Path, str]]:
    yield repository.common, "config"
    yield repository.directory, "config.worktree"


def _user_settings(program: str, environment: Mapping[str, str]) -> bytes:
    """What the user's own configuration says, and the system's."""
    own = {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}
    hidden = ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")
    kept = {name: value for name, value in environment.items() if name not in hidden}
    return _run([program, "config", "--includes", "--list", "-z"], {**kept, **own}, b"")


def _excludes(listed: bytes) -> str:
    """The user's own list of files to ignore: as configured, or where git looks for it."""
    values = [entry.partition("\n") for entry in listed.decode(errors="surrogateescape").split("\0")]
    configured = [value for name, _, value in values if name == "core.excludesfile" and value]
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return os.path.expanduser(configured[-1] if configured else f"{home}/git/ignore")  # noqa: PTH111 - plain text


def _run(command: list[str], environment: Mapping[str, str], text: bytes, *, seconds: float = SECONDS) -> bytes:
    """Its output; none if it fails: then git's defaults apply."""
    place = environment["GIT_DIR"]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, timeout=seconds, check=True, env=environment, cwd=place
        )
    except (OSError, subprocess.SubprocessError):
        return b""
    return done.stdout


def _read(path: Path) -> str:
    """A small regular file; empty if it is anything else. A pipe or a device is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return ""
        content = file.read(LARGEST_CONFIG + 1)
    return content.decode(errors="surrogateescape") if len(content) <= LARGEST_CONFIG else ""
