"""`--worktree` and `buddy worktree`: a session in a git worktree of its own, listed, merged back or removed.

Invariants: only worktrees that Buddy made (branches `buddy/…`) are listed and changed; what would lose work is refused
unless it is forced; a merge that conflicts changes nothing, and one that the user began is left alone.
"""

import json
import os
import sys
import time

from buddy.cli.options import Options
from buddy.cli.session_options import target_of
from buddy.errors import UserError
from buddy.git import find_repository, run_git
from buddy.terminal.escape import escape

PREFIX = "buddy/"


class Worktree:
    """One of ours, as `git worktree list` names it."""

    def __init__(self, path: str, branch: str) -> None:
        self.path = path
        self.branch = branch
        self.name = branch.removeprefix(PREFIX)

    def changed(self) -> int:
        """How many files are not committed."""
        return len(run_git(self.path, "status", "--porcelain", "--untracked-files=all").splitlines())

    def ahead(self, of: str) -> int:
        """How many commits it has that a repository's branch lacks."""
        return int(run_git(of, "rev-list", "--count", f"HEAD..{self.branch}").strip() or 0)


def enter_worktree(options: Options) -> None:
    """Make a worktree of the repository that the workspace is in, and work there from now on."""
    if options.last or options.session:
        raise UserError("--worktree starts a session of its own", hint="leave out -c and --session")
    if target_of(options) != "local":
        raise UserError("--worktree works on this machine only", hint=f"not on {target_of(options)}")
    top = _top(options.directory)
    inside = os.path.relpath(os.path.realpath(options.directory), top)
    name = _free_name(top)
    path = f"{_folder(top)}/{name}"
    run_git(top, "worktree", "add", "--quiet", "-b", f"{PREFIX}{name}", path, "HEAD")
    options.directory = os.path.normpath(f"{path}/{inside}")
    os.makedirs(options.directory, exist_ok=True)  # noqa: PTH103 - a folder that has no tracked file
    print(f"worktree {name} in {path}; later: buddy worktree merge {name}", file=sys.stderr)


def worktree(options: Options) -> int:
    top = _main(_top(options.directory))
    match options.action:
        case "list":
            return _list(top, as_json=options.json)
        case "merge":
            return _merge(top, _find(top, options.name))
        case _:
            return _remove(top, _find(top, options.name), force=options.discard)


def _list(top: str, *, as_json: bool) -> int:
    rows = [
        {"name": one.name, "branch": one.branch, "path": one.path, "changed": one.changed(), "commits": one.ahead(top)}
        for one in _all(top)
    ]
    if as_json:
        print(json.dumps({"worktrees": rows}))
    for row in rows if not as_json else ():
        state = f"{row['changed']} changed, {row['commits']} commits"
        print(f"{escape(str(row['name']))}  {state}  {escape(str(row['path']))}")
    if not rows and not as_json:
        print("no worktrees; buddy --worktree starts a session in one", file=sys.stderr)
    return 0


def _merge(top: str, found: Worktree) -> int:
    """Commit what the session left, and merge the branch into the one that is checked out."""
    if _is_merging(top):
        raise UserError(
            f"a merge is under way in {top}", hint="finish it with git commit, or leave it with git merge --abort"
        )
    if found.changed():
        run_git(found.path, "add", "--all")
        run_git(found.path, "commit", "--quiet", "--message", f"Changes of Buddy's worktree {found.name}")
    if not found.ahead(top):
        print(f"{found.name} has nothing to merge", file=sys.stderr)
        return 0
    try:
        run_git(top, "merge", "--quiet", "--no-edit", found.branch)
    except UserError as error:
        conflicts = run_git(top, "diff", "--name-only", "--diff-filter=U").splitlines()
        if conflicts and _is_merging(top):
            run_git(top, "merge", "--abort")
        print(f"not merged: {escape(', '.join(conflicts) or str(error))}", file=sys.stderr)
        print(f"hint: merge {found.branch} yourself: git merge {found.branch}", file=sys.stderr)
        return 1
    print(f"merged {found.branch}; buddy worktree remove {found.name} deletes the worktree", file=sys.stderr)
    return 0


def _is_merging(top: str) -> bool:
    """Whether a merge, or anything else that left unmerged files, is not finished."""
    head = run_git(top, "rev-parse", "--git-path", "MERGE_HEAD").strip()
    return os.path.lexists(os.path.join(top, head)) or bool(run_git(top, "ls-files", "--unmerged"))  # noqa: PTH118 - plain text


def _remove(top: str, found: Worktree, *, force: bool) -> int:
    left = found.changed(), found.ahead(top)
    if any(left) and not force:
        raise UserError(
            f"{found.name} has {left[0]} changed files and {left[1]} commits that are not merged",
            hint=f"buddy worktree merge {found.name}, or remove it with --discard",
        )
    try:
        run_git(top, "worktree", "remove", *(("--force",) if force else ()), found.path)
    except UserError as error:
        if force:
            raise
        raise UserError(str(error), hint=f"buddy worktree remove {found.name} --discard removes it anyway") from error
    run_git(top, "branch", "--quiet", "-D", found.branch)
    print(f"removed {found.name}", file=sys.stderr)
    return 0


def _all(top: str) -> list[Worktree]:
    found: list[Worktree] = []
    for block in run_git(top, "worktree", "list", "--porcelain").split("\n\n"):
        fields = {line.partition(" ")[0]: line.partition(" ")[2] for line in block.splitlines()}
        branch = fields.get("branch", "").removeprefix("refs/heads/")
        if branch.startswith(PREFIX) and os.path.isdir(fields["worktree"]):  # noqa: PTH112 - plain text
            found.append(Worktree(fields["worktree"], branch))
    return found


def _find(top: str, name: str) -> Worktree:
    known = _all(top)
    for one in known:
        if name.removeprefix(PREFIX) == one.name or os.path.realpath(name) == one.path:
            return one
    names = ", ".join(one.name for one in known) or "none"
    raise UserError(f"no worktree {name[:80]!r}. Available: {names}", hint="buddy worktree list")


def _top(directory: str) -> str:
    repository = find_repository(directory)
    if repository is None:
        raise UserError(
            f"{os.path.realpath(directory)} is not in a git repository", hint="worktrees need one: git init"
        )
    return str(repository.work_tree)


def _main(top: str) -> str:
    """The repository's own work tree, also if this is one of its worktrees."""
    first = run_git(top, "worktree", "list", "--porcelain").partition("\n")[0]
    return first.removeprefix("worktree ")


def _folder(top: str) -> str:
    """Beside the repository: on the same disk, where its user looks."""
    return f"{_main(top)}-worktrees"


def _free_name(top: str) -> str:
    base = time.strftime("%m%d-%H%M%S")
    taken = {one.name for one in _all(top)}
    names = (base if not number else f"{base}-{number}" for number in range(1000))
    return next(name for name in names if name not in taken and not os.path.lexists(f"{_folder(top)}/{name}"))
