"""The files that a session changed: listed, and brought back.

Invariants: only paths that the session changed are touched, and none that a rule denies; what is about to be done is
recorded first, so that the next process finishes it; an undo is recorded like any change and can be taken back.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy.approvals.questions import Question
from buddy.checkpoints.checkpoints import CheckpointError, Checkpoints
from buddy.checkpoints.contract import CallKey, Conflict, Scope
from buddy.checkpoints.entries import Change, Entry, shown_path
from buddy.checkpoints.listing import contents_of, describe, listed, name_of
from buddy.errors import ProtocolError
from buddy.log.contract import Claim, Log
from buddy.protocol.file_events import FilesRestored
from buddy.protocol.file_requests import (
    FileChange,
    FileConflict,
    ListChanges,
    ListChangesReply,
    RestoreFiles,
    RestoreFilesReply,
)
from buddy.protocol.intents import Write
from buddy.scrub import Scrubber
from buddy.sessions.file_history import Combined, combine, last_undo, read_steps, select, with_undos
from buddy.sessions.file_tracker import MAX_LISTED, list_files
from buddy.sessions.journal import Rows
from buddy.sessions.services import SessionServices
from buddy.sessions.session import Session
from buddy.sessions.written_files import MAX_DIFFS, cut
from buddy.steps import take_turns
from buddy.tools.changes import diff

MAX_CONTENTS = 512 * 1024
MAX_WHOLE = 16 * 1024 * 1024
"""How long a diff may be that is available in full."""
MIXED = "somebody else changed it between two calls"
NO_ROOM = "less than 200 MiB of disk space is free, so nothing was restored; free some space and try again"
BEYOND = "Not included: files outside the workspace, git's own directories, and what a shell command did elsewhere."


class Listing(Struct, frozen=True):
    """What is needed to list changes; a session need not be open for it. `keep` stores a long diff as a blob."""

    log: Log
    scrubber: Scrubber
    checkpoints: Checkpoints | None
    keep: Callable[[str], str] | None = None


async def list_changes(
    services: Listing, session_id: str, scope: Scope, request: ListChanges
) -> ListChangesReply | None:
    """The changes of a selection; None if the session has no checkpoints."""
    steps = await read_steps(services.log, session_id, request)
    if services.checkpoints is None or not steps:
        return None
    at = request.at_seq
    known = [step for step in steps if at is None or step.seq <= at]
    chosen = select(known, request)
    if request.run_id is None and request.call_id is None:  # of those named it is what they did that is listed
        chosen = with_undos(known, chosen)
    try:
        kept = await services.checkpoints.changes([step.checkpoint_id for step in chosen])
        found = _only(combine(chosen, kept), request.path, services.scrubber.registered)
        conflicts = await _conflicts(services.checkpoints, scope, found) if at is None else {}
        coverage = describe(await services.checkpoints.coverage(scope.root))
        files = await _file_changes(services, found.changes, conflicts, with_diffs=request.diff)
        if request.content:
            files = await _with_contents(services, found.changes, files)
    except CheckpointError as error:
        raise _refusal(error) from error
    hide = services.scrubber.registered
    return ListChangesReply(_named_safely(files, hide), hide(_uncovered(found, coverage)))


def _refusal(error: CheckpointError) -> ProtocolError:
    return ProtocolError("STORAGE_FULL" if error.is_disk_full else "INTERNAL_ERROR", str(error), retryable=True)


def _only(found: Combined, path: str | None, hide: Callable[[str], str]) -> Combined:
    if path is None:
        return found
    chosen = _named(found.changes, [path], hide)
    return Combined(tuple(one for one in found.changes if shown_path(one.path) in chosen), found.mixed, found.lost)


def _named(changes: Sequence[Change], names: Sequence[str], hide: Callable[[str], str]) -> frozenset[str]:
    """The paths that a client means: as they are, or as a reply shows them if that can only be one."""
    by_name: dict[str, list[str]] = {}
    for path in (shown_path(change.path) for change in changes):
        by_name.setdefault(hide(path), []).append(path)
    meant = (by_name.get(name, []) for name in names)
    return frozenset(names).union(*(paths for paths in meant if len(paths) == 1))


def _named_safely(files: Sequence[FileChange], hide: Callable[[str], str]) -> tuple[FileChange, ...]:
    return tuple(replace(file, path=hide(file.path)) for file in files)


async def _with_contents(services: Listing, changes: Sequence[Change], files: list[FileChange]) -> list[FileChange]:
    """The same with the texts after the changes."""
    checkpoints = services.checkpoints
    after = {name_of(change): change.after for change in changes if change.after and change.after.kind == "file"}
    contents = await checkpoints.read({entry.content for entry in after.values()}) if checkpoints else {}
    left, shown = MAX_CONTENTS, list[FileChange]()
    for file in files:
        entry = after.get(file.path)
        data = contents.get(entry.content) if entry else None
        text = None
        if data is not None and len(data) <= left and b"\0" not in data[:8192]:
            text = await take_turns(services.scrubber.text_steps(data.decode("utf-8", "replace")))
            left -= len(data)
        shown.append(replace(file, content=text))
    return shown


async def _conflicts(checkpoints: Checkpoints, scope: Scope, found: Combined) -> dict[str, str]:
    plan = await checkpoints.plan(scope, found.changes, frozenset(), _refuse_mixed(found, frozenset()))
    return {conflict.path: conflict.why for conflict in plan.conflicts}


def _uncovered(found: Combined, coverage: str) -> str:
    lost = f"{found.lost} checkpoints of this selection are no longer kept. " if found.lost else ""
    return f"{lost}{coverage} {BEYOND}".strip()


async def _file_changes(
    services: Listing, changes: Sequence[Change], conflicts: Mapping[str, str], *, with_diffs: bool
) -> list[FileChange]:
    checkpoints = services.checkpoints
    if checkpoints is None:
        return []
    shown = listed(changes)
    counted = await list_files(checkpoints, shown)
    left, files = MAX_DIFFS, list[FileChange]()
    for change, file in zip(shown, counted, strict=True):
        text = blob = None
        if with_diffs and left > 0:
            contents = await checkpoints.read(contents_of([change]))
            whole = await asyncio.to_thread(_diff, change, contents)
            whole = await take_turns(services.scrubber.text_steps(whole))
            text = cut(whole)
            blob = services.keep(whole) if services.keep and text != whole else None
            left -= len(text)
        why = conflicts.get(change.path)
        files.append(FileChange(file.path, file.change, file.added, file.removed, text, why, blob=blob))
    return files


def _diff(change: Change, contents: Mapping[bytes, bytes]) -> str:
    """A unified diff, with a line for what is not content."""
    before, after = (_text(half, contents) for half in (change.before, change.after))
    name = name_of(change)
    notes = _notes(change)
    if before is None or after is None:
        return f"--- {name}\n+++ {name}\n{notes}the content is not kept\n"
    if change.before is None:
        return diff(name, None, after, MAX_WHOLE) or f"--- /dev/null\n+++ {name}\n{notes}"
    text = diff(name, before, after, MAX_WHOLE)
    if change.after is None:
        text = text.replace(f"\n+++ {name}\n", "\n+++ /dev/null\n", 1)
    return text if text and not notes else (text or f"--- {name}\n+++ {name}\n") + notes


def _notes(change: Change) -> str:
    before, after = change.before, change.after
    if before is None or after is None or (before.kind, before.mode) == (after.kind, after.mode):
        return ""
    if before.kind != after.kind:
        return f"\\ {before.kind} became a {after.kind}\n"
    return f"\\ mode {before.mode:04o} became {after.mode:04o}\n"


def _text(entry: Entry | None, contents: Mapping[bytes, bytes]) -> bytes | None:
    if entry is None or entry.kind == "directory":
        return b""
    return contents.get(entry.content)


# --- restoring --------------------------------------------------------------------------------------------------------


class _Detail(Struct, frozen=True):
    """What the record of a restore says besides its steps."""

    by: str
    undid: tuple[str, ...]
    redo: bool
    conflicts: tuple[str, ...]


async def restore_files(session: Session, request: RestoreFiles, by: str) -> RestoreFilesReply:
    """Undo a selection of changes, or say what that would do."""
    checkpoints = session.services.checkpoints
    if checkpoints is None or session.files.why_off:
        raise ProtocolError("INVALID_REQUEST", f"nothing can be restored: {session.files.why_off}")
    if not request.dry_run:
        session.runs.check_idle("restore files")
        if not session.services.log.has_room():
            raise ProtocolError("STORAGE_FULL", NO_ROOM, retryable=True)
        session.runs.held_for = "a restore"
    try:
        reply = await _restore(session, checkpoints, request, by)
    except CheckpointError as error:
        raise _refusal(error) from error
    finally:
        if not request.dry_run:
            session.runs.held_for = ""
            await session.runs.start_queued()
    hide = session.services.scrubber.registered
    conflicts = tuple(FileConflict(hide(one.path), hide(one.why)) for one in reply.conflicts)
    return replace(reply, restored=_named_safely(reply.restored, hide), conflicts=conflicts)


async def _restore(session: Session, checkpoints: Checkpoints, request: RestoreFiles, by: str) -> RestoreFilesReply:
    services, root = session.services, session.place.root
    steps = await read_steps(services.log, session.session_id, request)
    chosen = last_undo(steps) if request.redo else with_undos(steps, select(steps, request))
    found = combine(chosen, await checkpoints.changes([step.checkpoint_id for step in chosen]))
    force = _named(found.changes, _forms(request.force), services.scrubber.registered)
    refuse = _refuse(session, _refuse_mixed(found, force))
    plan = await checkpoints.plan(session.files.scope(), found.changes, force, refuse)
    listing = Listing(services.log, services.scrubber, checkpoints)
    restored = tuple(await _file_changes(listing, plan.steps, {}, with_diffs=False))
    conflicts = [FileConflict(shown_path(one.path), one.why) for one in plan.conflicts]
    uncovered = _uncovered(found, "")
    if request.dry_run or not plan.steps:
        return RestoreFilesReply(restored, tuple(conflicts), None, uncovered)
    undid = tuple(step.checkpoint_id for step in chosen)
    detail = _Detail(by, undid, request.redo, tuple(one.path for one in conflicts))
    key = CallKey(session.session_id, "", services.ids("restore"))
    await session.commit(Rows(claim=Claim(f"restore/{key.checkpoint}", 1, key.checkpoint)))
    await checkpoints.record_restore(key, root, plan.steps, msgspec.json.encode(detail).decode())
    done, problems = await _carry_out(session, checkpoints, key.checkpoint, detail, recovered=False)
    failed = {problem.path for problem in problems}
    kept = {change.path for change in listed(done)}
    shown = {name_of(change) for change in listed(plan.steps) if change.path in kept and change.path not in failed}
    conflicts += [FileConflict(shown_path(one.path), one.why) for one in problems]
    return RestoreFilesReply(
        tuple(one for one in restored if one.path in shown), tuple(conflicts), key.checkpoint, uncovered
    )


async def sessions_restoring(services: SessionServices) -> list[str]:
    """The sessions in which a restore was under way when its process died."""
    if services.checkpoints is None:
        return []
    try:
        return [session_id for _, session_id, _ in await services.checkpoints.unfinished()]
    except CheckpointError:
        return []


async def finish_restores(session: Session) -> None:
    """Finish what an earlier process began to restore in this session, and record it."""
    checkpoints = session.services.checkpoints
    if checkpoints is None or session.files.why_off:
        return
    try:
        for checkpoint, session_id, text in await checkpoints.unfinished():
            if session_id == session.session_id:
                last = await session.services.log.last(session_id, ("files_restored",))
                body = last.body() if last else None
                if isinstance(body, FilesRestored) and body.checkpoint_id == checkpoint:
                    await checkpoints.report(checkpoint)
                else:
                    detail = msgspec.json.decode(text, type=_Detail)
                    await _carry_out(session, checkpoints, checkpoint, detail, recovered=True)
    except CheckpointError:
        return  # the next process tries again


async def _carry_out(
    session: Session, checkpoints: Checkpoints, checkpoint: str, detail: _Detail, *, recovered: bool
) -> tuple[list[Change], list[Conflict]]:
    done, problems = await checkpoints.restore(checkpoint, session.files.scope())
    files = await list_files(checkpoints, done)
    body = FilesRestored(
        checkpoint_id=checkpoint,
        files=files[:MAX_LISTED],
        by=detail.by,
        undid=detail.undid,
        total=len(files) if len(files) > MAX_LISTED else None,
        conflicts=(*detail.conflicts, *(shown_path(problem.path) for problem in problems))[:MAX_LISTED],
        redo=detail.redo,
        recovered=recovered,
    )
    session.journal.record(body)
    await session.commit(durable=True)
    await checkpoints.report(checkpoint)
    return done, problems


def _forms(force: Sequence[str]) -> list[str]:
    return [path.rstrip("/").removeprefix("./") for path in force]


def _refuse_mixed(found: Combined, force: frozenset[str]) -> Callable[[str], str | None]:
    return lambda path: MIXED if path in found.mixed and shown_path(path) not in force else None


def _refuse(session: Session, before: Callable[[str], str | None]) -> Callable[[str], str | None]:
    """Also paths that a rule closes to writing."""
    place = session.place
    permissions = session.services.permissions(place.root)

    def refuse(path: str) -> str | None:
        intent = Write(
            title="restore a file",
            summary=path,
            target=place.target.name,
            sandbox=place.sandbox,
            path=f"{place.root}/{path}",
            protected=False,
        )
        opinion = permissions.judge(Question("restore", "side-effecting", intent, "", "write_file"))
        return f"a rule denies it: {opinion.why}" if opinion.decision == "deny" else before(path)

    return refuse
