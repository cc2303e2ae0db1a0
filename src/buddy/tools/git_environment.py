"""The environment of a git command that a rule allowed without asking.

The command changes the real repository, so git must read the real configuration; but what the repository's own files
say counts only where it cannot run anything. Settings in the environment win over files: every setting of the
repository that is not known to be harmless is set to what the user's own configuration says, or to nothing.

Invariants: a setting that cannot be overruled refuses the command; nothing of the repository runs while it is looked
at; filters that are taken away fail rather than store a file unfiltered.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from buddy.errors import ToolError
from buddy.targets.contract import Target, without_terminal
from buddy.tools.shell.grammar import parse

SECONDS = 10.0
LARGEST = 1 << 20

Settings = tuple[tuple[str, str], ...]

_ALWAYS: Settings = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    ("protocol.allow", "never"),
    *((f"protocol.{name}.allow", "always") for name in ("http", "https", "ssh", "git")),
    # A repository on this machine has hooks of its own.
    ("protocol.file.allow", "never"),
)
_VARIABLES = {"GIT_PAGER": "cat", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}

# What a repository may say: names that hold no program, no file outside it and no address to rewrite.
_HARMLESS = re.compile(
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|quotepath|sparsecheckout|sparsecheckoutcone|abbrev|compression|preloadindex|multipackindex|commitgraph"
    r"|sharedrepository|whitespace|trustctime|checkstat|untrackedcache|splitindex|bigfilethreshold|commentchar)"
    r"|extensions\.[a-z]+|user\.(name|email|signingkey)|include\.path|init\.defaultbranch"
    r"|remote\..*\.(url|pushurl|fetch|push|tagopt|prune|prunetags|mirror|promisor|partialclonefilter|skipfetchall)"
    r"|branch\..*\.(remote|merge|rebase|pushremote|description)|(remote|checkout)\.(pushdefault|defaultremote)"
    r"|submodule\..*\.(url|active|branch|path|shallow|ignore|fetchrecursesubmodules)|submodule\.active"
    r"|(pull|push|rebase|status|color|column|index|pack|advice|feature|log|rerere|stash|tag|commit|branch)\.[a-z]+"
    r"|fetch\.(prune|prunetags|all|parallel|output|writecommitgraph|recursesubmodules|unpacklimit|showforcedupdates)"
    r"|gc\.(auto|autodetach|autopacklimit|pruneexpire|packrefs|writecommitgraph|reflogexpire|worktreepruneexpire)"
    r"|merge\.(ff|conflictstyle|renames|log|stat|renamelimit)|color\.[a-z]+\.[a-z]+"
    r"|diff\.(algorithm|renames|renamelimit|context|noprefix|mnemonicprefix|colormoved|indentheuristic|ignoresubmodules)",
    re.IGNORECASE,
)
# Settings of which the first one counts, or all do, or that decide which files are read later, cannot be taken back.
_FINAL = re.compile(
    r"url\..*\.(insteadof|pushinsteadof)|includeif\..*|http\..*\.?extraheader|core\.gitproxy|gc\.recentobjectshook"
    r"|remote\..*\.(uploadpack|receivepack|vcs)",
    re.IGNORECASE,
)
# What takes the place of a setting of the repository where the user has none.
_INSTEAD: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), value)
    for pattern, value in (
        (r"diff\..*\.textconv", "cat"),
        (r"merge\..*\.driver", "false"),
        (r"pager\..*", "false"),
        (r"core\.sshcommand", "ssh"),
        (r"gpg\.program|gpg\.openpgp\.program", "gpg"),
        (r"gpg\.x509\.program", "gpgsm"),
        (r"gpg\.ssh\.program", "ssh-keygen"),
        (r"submodule\..*\.update", "checkout"),
        (r"http\.(.*\.)?sslverify|core\.protect(hfs|ntfs)", "true"),
        (r"interactive\.difffilter", "cat"),
    )
)
_FILTER = re.compile(r"filter\.(.*)\.[a-z]+", re.IGNORECASE)
# What only looks: a file that is shown unfiltered harms nobody.
_LOOKING = frozenset(
    {"status", "diff", "log", "show", "ls-files", "rev-parse", "blame", "grep", "describe", "shortlog"}
)

# The settings of a repository and of its submodules, each with its scope. Nothing in it runs what they name.
_LIST = r"""
walk() {
  git config --list --show-scope -z
  top=$(git rev-parse --show-toplevel 2>/dev/null) && cd "$top" || return 0
  git ls-files -s | sed -n 's/^160000 [0-9a-f]* [0-9]	//p' | while IFS= read -r path; do
    case $path in '"'*) printf 'local\0odd.path\n\0'; continue;; esac
    if [ -e "$path/.git" ]; then
      printf 'submodule\0\0'
      if [ "$1" -ge 8 ]; then printf 'local\0odd.depth\n\0'; else (cd "$path" && walk $(($1 + 1))); fi
    fi
  done
}
walk 0
"""


def runs_git(command: str) -> bool:
    return any(re.fullmatch(r"git(-.*)?", words[0].rpartition("/")[2]) for words in parse(command).found if words)


async def git_environment(command: str, target: Target, cwd: str, nonce: str) -> dict[str, str]:
    """The variables for this command; ToolError if the repository has a setting that they cannot overrule."""
    listed = await _list_settings(without_terminal(target), cwd, nonce)
    settings = [*_ALWAYS, *overrule(listed, is_looking=_is_looking(command))]
    return _variables(settings)


def overrule(listed: bytes, *, is_looking: bool) -> Iterator[tuple[str, str]]:
    """What to set instead of what repositories say, from lists of settings with their scopes."""
    words = listed.decode(errors="surrogateescape").split("\0")
    own: dict[str, list[str]] = {}
    theirs: dict[str, None] = {}
    is_submodule = False
    for scope, setting in zip(words[::2], words[1::2], strict=False):
        name, _, value = setting.partition("\n")
        is_submodule = is_submodule or scope == "submodule"
        if scope in ("local", "worktree"):
            # A submodule has one, and nothing is written there.
            if not is_submodule or name.lower() != "core.worktree":
                theirs[name] = None
        elif scope in ("system", "global"):
            own.setdefault(name, []).append(value)
    for name in theirs:
        _check(name)
        if not _HARMLESS.fullmatch(name):
            yield from _instead(name, own.get(name, []), is_looking=is_looking)


def _check(name: str) -> None:
    if _FINAL.fullmatch(name) or name.startswith("odd.") or name.lower() == "core.worktree":
        what = f"has {name}, which" if not name.startswith("odd.") else "has submodules that"
        raise ToolError(
            f"not run: this repository's git configuration {what} can't be overruled, and a rule allowed the command "
            "without asking. Ask the user to run it"
        )


def _instead(name: str, own: list[str], *, is_looking: bool) -> Iterator[tuple[str, str]]:
    if re.fullmatch(r"credential\.(.*\.)?helper", name, re.IGNORECASE):
        yield name, ""  # an empty one forgets all before it
        yield from ((name, value) for value in own)
        return
    if own:
        yield name, own[-1]
        return
    yield name, next((value for pattern, value in _INSTEAD if pattern.fullmatch(name)), "")
    if found := _FILTER.fullmatch(name):
        yield f"filter.{found[1]}.required", "false" if is_looking else "true"


def _variables(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    names = {f"GIT_CONFIG_KEY_{at}": name for at, (name, _) in enumerate(settings)}
    values = {f"GIT_CONFIG_VALUE_{at}": value for at, (_, value) in enumerate(settings)}
    return {**_VARIABLES, **names, **values, "GIT_CONFIG_COUNT": str(len(settings))}


def _is_looking(command: str) -> bool:
    """Whether every git in it only shows something."""
    calls = [words for words in parse(command).found if words and words[0].rpartition("/")[2] == "git"]
    return all(len(words) > 1 and words[1] in _LOOKING for words in calls)


async def _list_settings(target: Target, cwd: str, nonce: str) -> bytes:
    output = bytearray()

    async def collect(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        if stream == "stdout" and len(output) <= LARGEST:
            output.extend(chunk)

    fixed = _variables(_ALWAYS)
    ended = await target.run(_LIST, cwd=cwd, nonce=nonce, on_output=collect, timeout=SECONDS, env=fixed)
    if ended.timed_out or len(output) > LARGEST:
        raise ToolError("not run: this repository's git configuration could not be read to its end")
    return bytes(output)
