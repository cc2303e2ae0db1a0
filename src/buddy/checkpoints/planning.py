"""Decides how files are brought back to an earlier state: what to do per path, and what to leave alone.

Invariants: only paths that were named are touched; a path that is neither as it was left nor as it should be is a
conflict and stays as it is unless it is forced by name; what a run moved stays where it is if its old place is taken.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from buddy.checkpoints.contract import Conflict, Plan
from buddy.checkpoints.entries import UNKNOWN, Change, Entry, is_same, shown_path
from buddy.checkpoints.workspace import Workspace

CHANGED = "it was changed since"
NOT_KEPT = "its earlier content was not kept"
NOT_SEEN = "it may have been changed since: what the call left was not kept"
NOT_EMPTY = "the directory has other files in it"
MOVED = "it was moved here, and its old place is not restored"
OTHER_KIND = "a pipe, socket or device is there now"


def plan(
    workspace: Workspace,
    wanted: Sequence[Change],
    force: frozenset[str] = frozenset(),
    refuse: Callable[[str], str | None] = lambda _: None,
) -> Plan:
    """How to undo some changes. `force` names paths as they are shown; `refuse` says why a path must not be touched."""
    steps: list[Change] = []
    conflicts: list[Conflict] = []
    similar = similar_paths(wanted)
    for path, should, left in wanted:
        now = current_entry(workspace, path, similar)
        if now is None and path not in similar and workspace.is_occupied(path):
            conflicts.append(Conflict(path, OTHER_KIND))
            continue
        if is_same(now, should):
            continue
        why = refuse(path) or _conflict(now, Change(path, should, left), is_forced=shown_path(path) in force)
        if why is None:
            steps.append(Change(path, now, should))
        else:
            conflicts.append(Conflict(path, why))
    moved = _moved(wanted, steps, conflicts, force)
    kept, more = _keep_directories(workspace.root, [step for step in steps if step.path not in moved])
    return Plan(tuple(kept), (*conflicts, *(Conflict(path, MOVED) for path in sorted(moved)), *more))


def _conflict(now: Entry | None, change: Change, *, is_forced: bool) -> str | None:
    """Why a path cannot be brought back; None if it can. `now` is not what it should be."""
    _, should, left = change
    if should is not None and not should.is_known:
        return NOT_KEPT
    if not is_same(now, left) and not is_forced:
        return CHANGED if left is None or left.is_known else NOT_SEEN
    if now is not None and not now.is_known:
        return "its present content cannot be kept"
    return None


def _moved(
    wanted: Sequence[Change], steps: Sequence[Change], conflicts: Sequence[Conflict], force: frozenset[str]
) -> set[str]:
    """Steps that would remove the last of what a conflict keeps from going back to where it was."""
    moved: set[str] = set()
    due = {change.path: change.before for change in wanted}
    stuck = {conflict.path for conflict in conflicts}
    while stuck:
        left = [step for step in steps if step.path not in moved and shown_path(step.path) not in force]
        back = {step.after.content for step in steps if step.after is not None and step.path not in moved}
        lost = {entry.content for path in stuck if (entry := due[path]) is not None and entry.size} - back
        stuck = {step.path for step in left if step.before and step.before.content in lost - {UNKNOWN}}
        moved |= stuck
    return moved


def similar_paths(changes: Sequence[Change]) -> set[str]:
    """Paths that differ only in case: where that does not count, one of them answers for the other."""
    seen: dict[str, str] = {}
    found: set[str] = set()
    for path, _, _ in changes:
        other = seen.setdefault(path.casefold(), path)
        if other != path:
            found |= {other, path}
    return found


def current_entry(workspace: Workspace, path: str, similar: set[str]) -> Entry | None:
    """What is at a path, under exactly this name."""
    if path in similar and not workspace.has_name(path):
        return None
    return workspace.current(path)


def _keep_directories(root: str, steps: list[Change]) -> tuple[list[Change], list[Conflict]]:
    """Directories that would not be empty stay."""
    going = {step.path for step in steps if step.after is None}
    kept: list[Change] = []
    conflicts: list[Conflict] = []
    for step in sorted(steps, key=_depth, reverse=True):
        is_removal = step.before is not None and step.before.kind == "directory" and _is_other(step)
        inside = _names_in(f"{root}/{step.path}") if is_removal else []
        if any(f"{step.path}/{name}" not in going for name in inside):
            conflicts.append(Conflict(step.path, NOT_EMPTY))
            going.discard(step.path)
        else:
            kept.append(step)
    return sorted(kept), conflicts


def _is_other(step: Change) -> bool:
    return step.after is None or step.after.kind != "directory"


def _names_in(path: str) -> list[str]:
    with suppress(OSError):
        return os.listdir(path)  # noqa: PTH208 - plain names
    return []


def _depth(step: Change) -> int:
    return step.path.count("/")
