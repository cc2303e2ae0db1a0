"""A session of many events: opening it reads what is needed, a page at a time."""

from collections.abc import Collection
from pathlib import Path

import pytest

from buddy.backends.native.loop import Native
from buddy.checkpoints.checkpoints import Checkpoints
from buddy.checkpoints.contract import CallKey, Scope
from buddy.log.contract import Batch
from buddy.log.memory import MemoryLog
from buddy.log.owners import this_owner
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import SessionStarted
from buddy.scrub.scrubber import Scrubber
from buddy.sessions import past
from buddy.sessions.file_tracker import FileTracker
from buddy.sessions.journal import Journal
from buddy.targets.local import Local
from buddy.tools.contract import Place
from tests.log.records import SESSION, record
from tests.soak.past import Past, notes, open_run, runs

MANY = 6000


class CountingLog(MemoryLog):
    """Knows how many events were read, and the longest page."""

    def __init__(self) -> None:
        super().__init__(lambda: 1)
        self.count = 0
        self.longest = 0
        self.kinds: set[str] = set()
        self.asked: list[tuple[str, ...]] = []

    async def read(
        self, session_id: str, after: int, limit: int = 500, types: Collection[str] = (), through: int | None = None
    ) -> list[Event]:
        self.asked.append(tuple(types))
        events = await super().read(session_id, after, limit, types, through)
        self.count += len(events)
        self.longest = max(self.longest, len(events))
        self.kinds |= {event.type for event in events}
        return events

    async def last(
        self, session_id: str, types: Collection[str], after: int = 0, through: int | None = None
    ) -> Event | None:
        before = self.count, self.longest, self.kinds
        found = await super().last(session_id, types, after, through)
        self.count, self.longest, self.kinds = before
        return found


async def long_log(kind: Past, many: int = MANY) -> CountingLog:
    log = CountingLog()
    lease = await log.create(record(), this_owner())
    started = SessionStarted(
        session_id=SESSION, state="idle", mode="interactive", provider="default", sandbox_provider="local"
    )
    events = [event_of(started, session_id=SESSION, seq=1, ts=1), *kind(SESSION, 1, many)]
    await log.append(Batch(SESSION, lease.epoch, 0, events))
    return log


@pytest.mark.parametrize(("kind", "at_most"), [(notes, 2), (runs, 400), (open_run, 1400)])
async def test_opening_reads_what_is_needed(kind: Past, at_most: int) -> None:
    log = await long_log(kind)
    opened = await past.read_past(log, SESSION, MANY + 1)
    async for _ in opened.pages(Native.lasting):
        pass
    assert log.count <= at_most
    assert log.longest <= past.PAGE
    assert not log.kinds & {"warning", "assistant_token", "assistant_done"}
    assert (opened.fold.run is None) == (kind is not open_run)


@pytest.mark.parametrize("kind", [runs, open_run])
async def test_what_changed_files_is_read_only_if_an_open_run_may_have_unrecorded_changes(
    kind: Past, tmp_path: Path
) -> None:
    log = await long_log(kind)
    fold = (await past.read_past(log, SESSION, MANY + 1)).fold
    lease = await log.acquire(SESSION, this_owner())
    assert lease is not None
    journal = Journal(
        log,
        lease,
        MANY + 1,
        clock=lambda: 1,
        scrubber=Scrubber(),
        apply=fold.apply,
        publish=lambda _: None,
        state=lambda: "idle",
    )
    (tmp_path / "work").mkdir()
    place = Place(Local(), str(tmp_path / "work"))
    earlier, later = Checkpoints(tmp_path / "state"), Checkpoints(tmp_path / "state")
    log.asked.clear()
    await FileTracker(earlier, fold, place, journal, lambda: lambda _: False).recover(log)
    assert log.asked == []
    run_id = fold.run.run_id if fold.run else "run_gone"
    await earlier.begin(CallKey(SESSION, run_id, "call_1"), Scope(place.root))
    await earlier.close()
    await FileTracker(later, fold, place, journal, lambda: lambda _: False).recover(log)
    assert log.asked == ([("files_changed",)] if kind is open_run else [])
    await later.close()


async def test_a_conversation_that_was_compacted_often_is_read_from_its_latest_compactions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.soak.past.COMPACTED_RUNS", 12)
    counts: list[int] = []
    for many in (20_000, 40_000):
        log = await long_log(runs, many)
        opened = await past.read_past(log, SESSION, many + 1)
        base = await opened.find_base()
        assert base is not None
        log.count = 0
        async for _ in opened.pages(Native.lasting, base):
            pass
        counts.append(log.count)
    assert max(counts) <= 1.2 * min(counts)
