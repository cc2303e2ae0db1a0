"""Records what each call of a session changes in its workspace.

Invariants: a checkpoint is begun while its call is claimed, before the call starts; what a call changed is looked
for while the run goes on, and recorded before the next such call begins and before the run ends; a command that is
known to only read has none; if checkpoints fail, the run goes on and the user learns of it once.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress

from buddy.capabilities import has
from buddy.checkpoints.checkpoints import CheckpointError, Checkpoints
from buddy.checkpoints.contract import CallKey, Coverage, Ended, Scope
from buddy.checkpoints.entries import Change
from buddy.checkpoints.listing import contents_of, count_lines, describe, is_counted, listed, name_of
from buddy.errors import LogError
from buddy.log.contract import Log
from buddy.protocol.events import WarningRaised
from buddy.protocol.file_events import ChangedFile, FilesChanged
from buddy.protocol.intents import Exec, Fetch, Intent, Write
from buddy.sessions.journal import Journal
from buddy.sessions.past import read_pages
from buddy.sessions.state import SessionFold
from buddy.targets.contract import Terminal
from buddy.targets.reading_commands import only_reads_anywhere
from buddy.tools.contract import Place

WATCHES = ("agent", "checks", "run")
"""What a watched run's checkpoints are called, instead of a call."""
MAX_LISTED = 200
"""How many files an event names; the store knows all of them."""


class FileTracker:
    def __init__(
        self,
        checkpoints: Checkpoints | None,
        fold: SessionFold,
        place: Place,
        journal: Journal,
        closed_now: Callable[[], Callable[[str], bool]],
    ) -> None:
        """`closed_now` gives a function that says which files a rule closes to reading: they are not kept."""
        self._checkpoints = checkpoints
        self._closed_now = closed_now
        self._session_id = journal.lease.session_id
        self._fold = fold
        self._place = place
        self._journal = journal
        self._begun: dict[str, CallKey] = {}
        self._reading: set[str] = set()
        """Calls that only read, which have no checkpoint."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._watched: CallKey | None = None
        self._is_warned = False
        self._finished = ""

    @property
    def why_off(self) -> str:
        """Why there are no checkpoints; empty if there are."""
        options = self._fold.started.options if self._fold.started else None
        if self._checkpoints is None or (options is not None and not options.checkpoints):
            return "checkpoints are off"
        name = self._place.target.name
        return "" if name == "local" else f"checkpoints cover this machine only, and the files are on {name}"

    # --- calls ----------------------------------------------------------------------------------------------------

    def needs_begin(self, call_id: str, intent: Intent | None) -> bool:
        """Whether a call needs a checkpoint before it starts. A watched run has one already."""
        if self.why_off or self._watched is not None or isinstance(intent, Fetch):
            return False
        if self._only_reads(intent):
            self._reading.add(call_id)
            return False
        return True

    async def begin(self, run_id: str, call_id: str, intent: Intent | None) -> None:
        """A call that needs a checkpoint is about to start."""
        await self.settle()
        # Noted first: if this is cancelled while the store is at work, the checkpoint is ended with the run.
        self._begun[call_id] = key = CallKey(self._session_id, run_id, call_id)
        if not await self._begin(key, self._scope(intent)):
            self._begun.pop(call_id, None)

    async def uncovered(self, intent: Intent) -> str:
        """What could not be brought back if this changed it; empty if all could."""
        if self.why_off or self._checkpoints is None or isinstance(intent, Write | Fetch) or self._only_reads(intent):
            return ""
        try:
            return describe(await self._checkpoints.look(self.scope()))
        except CheckpointError as error:
            return str(error)

    def end_soon(self, run_id: str, call_id: str) -> None:
        """A call has its result, or will get none."""
        if self.why_off or run_id == self._finished:
            return
        if call_id in self._reading:
            self._reading.discard(call_id)
            return
        key = self._begun.pop(call_id, None) or CallKey(self._session_id, run_id, call_id)
        self._spawn(self._split(call_id) if self._watched is not None else self._end(key, call_id))

    async def settle(self) -> None:
        """Wait until everything that ended is recorded."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # --- runs -----------------------------------------------------------------------------------------------------

    async def watch(self, run_id: str, name: str) -> None:
        """Attribute what changes from now on to the run: nobody announces what happens in it."""
        if self.why_off or self._watched is not None:
            return
        await self.settle()
        self._watched = key = CallKey(self._session_id, run_id, _name_part(name))
        if not await self._begin(key, self.scope()):
            self._watched = None

    async def recover(self, log: Log) -> None:
        """Record what an earlier process did not. A call without a result is left out: the run ends it."""
        if self.why_off or self._checkpoints is None:
            return
        run = self._fold.run
        try:
            unrecorded = await self._checkpoints.unrecorded(self._session_id)
            is_open = any(run is not None and key.run == run.run_id for key in unrecorded)
            recorded = await _recorded(log, self._session_id) if is_open else set[str]()
            for key in unrecorded:
                if run is None or key.run != run.run_id or key.checkpoint in recorded:
                    await self._checkpoints.report(key.checkpoint)
                elif key.call not in run.open_calls:
                    await self._end(key, None if key.call.partition(".")[0] in WATCHES else key.call)
                else:
                    await self._checkpoints.adopt(key)
        except CheckpointError as error:
            self._warn(str(error))

    async def finish(self) -> None:
        """The calls of the run are over, whether they have results or not: nothing is recorded after its outcome."""
        ending = {call_id: key.run for call_id, key in self._begun.items()}
        run = self._fold.run
        if run is not None:
            # Also those that a process claimed that died.
            ending |= {call_id: run.run_id for call_id, call in run.open_calls.items() if call.stage == "claimed"}
        for call_id, run_id in ending.items():
            self.end_soon(run_id, call_id)
        if run is not None:
            self._finished = run.run_id
        await self.settle()
        watched, self._watched = self._watched, None
        if watched is not None:
            await self._end(watched, None)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- inside ---------------------------------------------------------------------------------------------------

    def scope(self) -> Scope:
        """The entire workspace."""
        return self._scope(None)

    def _only_reads(self, intent: Intent | None) -> bool:
        """Whether it is a command that changes nothing. In a shared pane, a word may be somebody's alias."""
        if not isinstance(intent, Exec) or intent.agent is not None or has(self._place.target, Terminal):
            return False
        return only_reads_anywhere(intent.command)

    def _scope(self, intent: Intent | None) -> Scope:
        root = self._place.root
        paths: tuple[str, ...] | None = None
        if isinstance(intent, Write) and intent.agent is None and intent.path.startswith(f"{root}/"):
            paths = _with_missing_parents(root, intent.path[len(root) + 1 :])
        started = self._fold.started
        parent = started.delegated.parent if started and started.delegated else ""
        return Scope(root, paths, parent, self._place.private, self._closed_now())

    async def _begin(self, key: CallKey, scope: Scope) -> bool:
        if self._checkpoints is None:
            return False
        try:
            coverage = await self._checkpoints.begin(key, scope)
        except CheckpointError as error:
            self._warn(str(error))
            return False
        return not coverage.is_off

    async def _end(self, key: CallKey, call_id: str | None) -> None:
        if self._checkpoints is None:
            return
        try:
            ended = await self._checkpoints.end(key, self.scope())
            await self._record(ended, key.run, call_id)
        except CheckpointError as error:
            self._warn(str(error))

    async def _split(self, call_id: str) -> None:
        watched = self._watched
        if self._checkpoints is None or watched is None:
            return
        following = CallKey(watched.session, watched.run, _name_part("run"))
        self._watched = following
        try:
            ended = await self._checkpoints.split(watched, following, self.scope())
            await self._record(ended, watched.run, call_id)
        except CheckpointError as error:
            self._warn(str(error))

    async def _record(self, ended: Ended | None, run_id: str, call_id: str | None) -> None:
        if ended is None or not ended.changes or self._checkpoints is None:
            return
        files = await list_files(self._checkpoints, ended.changes)
        body = FilesChanged(
            checkpoint_id=ended.checkpoint,
            files=files[:MAX_LISTED],
            call_id=call_id,
            total=len(files) if len(files) > MAX_LISTED else None,
            uncovered=_uncovered(ended.coverage, is_recovered=ended.is_recovered),
            overlaps=ended.overlaps,
        )
        self._journal.record(body, run_id)
        with suppress(LogError):  # then the session is read again, and this with it
            await self._journal.commit()
            await self._checkpoints.report(ended.checkpoint)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _warn(self, why: str) -> None:
        if not self._is_warned:
            self._is_warned = True
            message = f"{why}; what commands change now cannot be undone"
            self._journal.record(WarningRaised(code="CHECKPOINTS_OFF", message=message))


async def _recorded(log: Log, session_id: str) -> set[str]:
    """The checkpoints that the session's log has."""
    pages = read_pages(log, session_id, types=("files_changed",))
    return {body.checkpoint_id async for page in pages for _, body in page if isinstance(body, FilesChanged)}


async def list_files(checkpoints: Checkpoints, changes: Sequence[Change]) -> tuple[ChangedFile, ...]:
    """Changes as events list them; lines are counted as far as the list is likely to be shown."""
    files: list[ChangedFile] = []
    for at, change in enumerate(listed(changes)):
        added, removed = await _count_lines(checkpoints, change) if at < MAX_LISTED else (0, 0)
        files.append(ChangedFile(name_of(change), change.word, added, removed))
    return tuple(files)


async def _count_lines(checkpoints: Checkpoints, change: Change) -> tuple[int, int]:
    if not is_counted(change):
        return 0, 0
    return await asyncio.to_thread(count_lines, change, await checkpoints.read(contents_of([change])))


def _uncovered(coverage: Coverage, *, is_recovered: bool) -> str | None:
    text = describe(coverage)
    if is_recovered:
        text = f"{text} The process died during this call: changes by others until now are included.".strip()
    return text or None


def _name_part(name: str) -> str:
    """A name that no other process gave to a part of the same run."""
    return f"{name}.{os.urandom(8).hex()}"


def _with_missing_parents(root: str, path: str) -> tuple[str, ...]:
    """A file and the directories that writing it would create."""
    paths = [path]
    while "/" in path:
        path = path.rpartition("/")[0]
        if os.path.lexists(f"{root}/{path}"):
            break
        paths.append(path)
    return tuple(reversed(paths))
