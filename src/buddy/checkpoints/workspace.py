"""What is known of one workspace: each file's times and content, kept up to date by looking at what changed.

Invariants: a change is attributed to the calls that were under way when it was seen, or to nobody, for example if the
look before did not reach so far; the content of a
changed file before the change is in our own store before the change is reported; a file that was not read before a call
began counts as unknown, never as what it was later.
"""

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from buddy import faults
from buddy.checkpoints.contents import Contents
from buddy.checkpoints.entries import GIT, UNKNOWN, Change, Entry, entry_of, is_same, kind_of
from buddy.checkpoints.limits import CheckpointLimits
from buddy.checkpoints.reach import Reach
from buddy.checkpoints.reading import Folder, Found, with_content
from buddy.checkpoints.rows import RootRow
from buddy.checkpoints.scan import Scan, Scanner
from buddy.checkpoints.seeding import Seed, object_id

FEW_FILES = 20
"""Up to this number, new files are read rather than looked for in the user's repository."""
READ_AT_ONCE = 500
"""How many contents of the user's repository are held in memory."""


class Uncovered(Struct):
    """What the checkpoints of a workspace leave out: directories and why, files without a content, and more."""

    skipped: dict[str, str] = field(default_factory=dict[str, str])
    unknown: set[str] = field(default_factory=set[str])
    is_partial: bool = False


class Workspace:
    """Used by one thread at a time. `files` is what was last seen, by path."""

    def __init__(
        self,
        root: str,
        row: RootRow,
        files: dict[str, Entry],
        contents: Contents,
        seed: Callable[[], Seed],
        limits: CheckpointLimits,
    ) -> None:
        self.root = root
        self.row = row
        self.files = files
        self.uncovered = Uncovered()
        self.dirty: dict[str, Entry | None] = {}
        """What changed in `files` and is not saved yet."""
        unknown = {path for path, entry in files.items() if not entry.is_known}
        self.pending = {path for path in unknown if files[path].size <= limits.max_file}
        """Files whose content is still to be stored, as it was when they were last seen."""
        self.uncovered.unknown = unknown - self.pending
        self.noticed: list[Change] = []
        """What was found by the way, and is nobody's yet."""
        self.reach: Reach | None = None
        """How far the last look at everything reached; None if that is not known."""
        self.private: tuple[str, ...] = ()
        self.is_closed: Callable[[str], bool] = lambda _: False
        self._refused: set[str] = set()
        """Files for which the store had no room; they are tried again."""
        self._contents = contents
        self._make_seed = seed
        self._seed: Seed | None = None
        self._limits = limits
        self._scanner = Scanner(root, (), limits)

    def use(self, private: tuple[str, ...], is_closed: Callable[[str], bool]) -> None:
        """Which directories are not entered, and which files are not read, from now on."""
        self.private = private
        self._scanner = Scanner(self.root, private, self._limits)
        self.is_closed = is_closed

    @property
    def seed(self) -> Seed:
        if self._seed is None:
            self._seed = self._make_seed()
        return self._seed

    def sync(self, scan_seconds: float, seconds: float, *, may_borrow: bool) -> list[Change]:
        """Look at everything; returns what changed since the last time, as far as that reached.

        Contents that take longer than `seconds` stay pending. If it may borrow, contents of files that nobody knew can
        stay in the user's repository: nobody is at work who could have made them.
        """
        deadline = time.monotonic() + seconds
        self.pending |= self._refused & self.files.keys()
        self._refused.clear()
        scan = self._scanner.scan(self.files, scan_seconds)
        self.uncovered.skipped, self.uncovered.is_partial = scan.skipped, not scan.is_complete
        is_seeded = may_borrow and self._is_worth_seeding(scan)
        if is_seeded:
            self._seed = self._make_seed()  # what the repository has may have changed
        folder = Folder(self.root, self._limits.max_file)
        try:
            missing = self._missing(scan, folder)
            changes = self._look_at(folder, scan, deadline, is_seeded=is_seeded)
        finally:
            folder.close()
        changes += [Change(path, self.files[path], None) for path in missing]
        settled = self.covered(self._settle(changes))
        self.reach = Reach(frozenset(scan.skipped.keys() | scan.private), frozenset(scan.listed), not scan.is_complete)
        return settled

    def _is_worth_seeding(self, scan: Scan) -> bool:
        """Whether reading the index of the repository is cheaper than reading the files that are new."""
        new = sum(path not in self.files for path in scan.changed)
        return new > 0 if not self.files else new > max(FEW_FILES, len(self.files) // 10)

    def covered(self, changes: list[Change]) -> list[Change]:
        """Those that happened since the last look at everything; others are older than anybody knows."""
        return changes if self.reach is None else self.reach.covered(changes)

    def look_at(self, paths: Iterable[str]) -> list[Change]:
        """The same for some paths alone."""
        folder = Folder(self.root, self._limits.max_file)
        changes: list[Change] = []
        try:
            for path in paths:
                info, before = folder.stat(path), self.files.get(path)
                if info is None:
                    changes += [] if before is None else [Change(path, before, None)]
                elif before is None or not before.has_stat(info) or before.content == UNKNOWN:
                    changes += self._compare(path, before, folder.read(path))
        finally:
            folder.close()
        return self._settle(changes)

    def fill(self, seconds: float, first: Iterable[str] = ()) -> list[Change]:
        """Store some of the pending contents of files that are still as they were seen, and return what was found."""
        deadline = time.monotonic() + seconds
        folder = Folder(self.root, self._limits.max_file)
        ahead = [path for path in first if path in self.pending]
        changes: list[Change] = []
        try:
            while self.pending and time.monotonic() < deadline:
                path = ahead.pop() if ahead else next(iter(self.pending))
                self.pending.discard(path)
                known, info = self.files.get(path), folder.stat(path)
                found = folder.read(path) if known and info and known.has_stat(info) else None
                if found is not None and known is not None and found.entry.changed == known.changed:
                    self._note(path, self._stored(path, found))
                    changes.append(Change(path, known, self.files[path]))
        finally:
            folder.close()
        return changes

    def current(self, path: str) -> Entry | None:
        """A file as it is now, its content stored."""
        self.noticed += self.covered(self.look_at([path]))
        known = self.files.get(path)
        if known is not None and _is_borrowed(known):
            self._note(path, self._own(path, known))
        return self.files.get(path)

    def is_occupied(self, path: str) -> bool:
        """Whether anything is there, also what cannot be kept."""
        folder = Folder(self.root, self._limits.max_file)
        try:
            return folder.stat(path) is not None
        finally:
            folder.close()

    def has_name(self, path: str) -> bool:
        """Whether a directory lists something under exactly this name: opening it may not care about case."""
        folder = Folder(self.root, self._limits.max_file)
        try:
            return folder.lists(path)
        finally:
            folder.close()

    def _own(self, path: str, known: Entry) -> Entry:
        """The same file, its content read and stored: only then can it be compared."""
        folder = Folder(self.root, self._limits.max_file)
        try:
            found = folder.read(path)
        finally:
            folder.close()
        return known if found is None else self._stored(path, found)

    # --- one file ------------------------------------------------------------------------------------------------

    def _look_at(self, folder: Folder, scan: Scan, deadline: float, *, is_seeded: bool) -> list[Change]:
        changes: list[Change] = []
        is_borrowing = False
        for path, info in scan.changed.items():
            before = self.files.get(path)
            is_late = time.monotonic() > deadline
            seeded = self._seeded(folder, path, info, is_late) if is_seeded and before is None else None
            if seeded is not None:
                is_borrowing = True
                changes.append(Change(path, None, seeded))
            elif is_late and not stat.S_ISDIR(info.st_mode):
                kind = kind_of(info)
                if kind is not None:
                    self.pending.add(path)
                    changes.append(Change(path, before, entry_of(kind, info, UNKNOWN)))
            else:
                changes += self._compare(path, before, folder.read(path))
        if is_borrowing:
            self.seed.pin()
        if is_seeded:
            self.seed.forget_index()
        return changes

    def _seeded(self, folder: Folder, path: str, info: os.stat_result, is_late: bool) -> Entry | None:
        """A file whose content is an object of the user's repository."""
        found = self.seed.find(path, info)
        if found is None or self._is_closed(path):
            return None
        if not self.seed.is_exact:
            read = None if is_late else folder.read(path)
            if read is None or read.data is None or object_id(read.data) != found:
                return None
        return entry_of("file", info, GIT + found)

    def _compare(self, path: str, before: Entry | None, found: Found | None) -> list[Change]:
        if found is None:
            return [] if before is None else [Change(path, before, None)]
        if before is not None and _is_borrowed(before) and found.data is not None:
            is_unchanged = object_id(found.data) == before.content[len(GIT) :]
            if is_unchanged:
                return [Change(path, before, with_content(found.entry, before.content))]
        return [Change(path, before, self._stored(path, found))]

    def _stored(self, path: str, found: Found) -> Entry:
        # Without a content to compare, a file that is read again would count as changed: its times alone decide.
        if found.data is None or self._is_closed(path):
            return replace(found.entry, is_settled=True)
        content = self._contents.put(found.data)
        if not content:
            self._refused.add(path)
            return replace(found.entry, is_settled=True)
        return with_content(found.entry, content)

    def _is_closed(self, path: str) -> bool:
        return self.is_closed(f"{self.root}/{path}")

    # --- all of them ---------------------------------------------------------------------------------------------

    def _missing(self, scan: Scan, folder: Folder) -> list[str]:
        """Known files that are not there any more; what was not entered is left as it is."""
        gone = [path for path in self.files if path not in scan.present]
        unseen = scan.skipped.keys() | scan.private
        if unseen:
            inside = tuple(f"{path}/" for path in unseen)
            gone = [path for path in gone if not path.startswith(inside) and path not in unseen]
        return gone if scan.is_complete else [path for path in gone if folder.stat(path) is None]

    def _settle(self, changes: list[Change]) -> list[Change]:
        """Keep the earlier contents, note what is there now, and return what really changed."""
        lent = [change.before.content[len(GIT) :] for change in changes if change.before and _needs_own(change)]
        kept: dict[bytes, bytes] = {}
        for at in range(0, len(lent), READ_AT_ONCE):
            found = self.seed.read(lent[at : at + READ_AT_ONCE])
            kept |= {one: self._contents.put(data) for one, data in found.items()}
        faults.reached("checkpoint.kept")
        settled: list[Change] = []
        for change in changes:
            before, after = change.before, change.after
            if _needs_own(change):
                before, after = _owned(before, kept), _owned(after, kept)
            self._note(change.path, after)
            if not is_same(before, after):
                settled.append(Change(change.path, before, after))
        return settled

    def _note(self, path: str, entry: Entry | None) -> None:
        self.dirty[path] = entry
        self.uncovered.unknown.discard(path)
        if entry is None:
            self.files.pop(path, None)
            self.pending.discard(path)
            return
        self.files[path] = entry
        if not entry.is_known and path not in self.pending:
            self.uncovered.unknown.add(path)


def _is_borrowed(entry: Entry) -> bool:
    """Whether its content is in the user's repository, not in our store."""
    return entry.content.startswith(GIT)


def _needs_own(change: Change) -> bool:
    """Whether a file that changed has a content that we only borrowed: in its mode alone, too."""
    before = change.before
    return before is not None and _is_borrowed(before) and not is_same(before, change.after)


def _owned(entry: Entry | None, kept: Mapping[bytes, bytes]) -> Entry | None:
    """The same file, with its content in our own store."""
    if entry is None or not _is_borrowed(entry):
        return entry
    return replace(entry, content=kept.get(entry.content[len(GIT) :], UNKNOWN))
