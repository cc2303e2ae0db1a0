"""A session that was compacted often is read from its latest compactions on, and stands where all of it would be."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.backends.native.loop import Native
from buddy.backends.native.pinned import Pins
from buddy.backends.native.prompt import Prompts, PromptSettings
from buddy.log.contract import Batch
from buddy.log.memory import MemoryLog
from buddy.log.owners import this_owner
from buddy.protocol.envelopes import Event
from buddy.protocol.events import SessionCompacted, SessionStarted
from buddy.sessions.fork import COPIED, Copier
from buddy.sessions.past import read_past
from tests.log.records import SESSION, record
from tests.sessions.long_stories import LongStory

SEEN: set[str] = set()
"""What the random sessions had in them."""


@contextmanager
def few_undoable(count: int) -> Generator[None]:
    with (
        patch("buddy.backends.native.compactions.UNDOABLE", count),
        patch("buddy.sessions.past_base.UNDOABLE", count),
        patch("buddy.sessions.past.PAGE", 7),
    ):
        yield


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), undoable=st.integers(1, 4), steps=st.integers(30, 250))
def test_a_session_read_from_its_base_is_the_one_that_is_read_in_full(seed: int, undoable: int, steps: int) -> None:
    story = LongStory(Random(seed))  # noqa: S311 - a test
    for _ in range(steps):
        story.step()
    with few_undoable(undoable):
        asyncio.run(check(story.events, story))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.floats(0.3, 1))
def test_so_is_a_fork_of_it_at_any_point(seed: int, share: float) -> None:
    story = LongStory(Random(seed))  # noqa: S311 - a test
    for _ in range(150):
        story.step()
    with few_undoable(2):
        asyncio.run(check(forked(story.events[: int(share * len(story.events))])))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), share=st.floats(0.01, 0.9))
def test_one_whose_beginning_was_pruned_is_read_in_full(seed: int, share: float) -> None:
    story = LongStory(Random(seed))  # noqa: S311 - a test
    for _ in range(150):
        story.step()
    with few_undoable(2):
        asyncio.run(check(story.events, pruned=2 + int(share * len(story.events))))


def test_the_random_sessions_are_read_in_both_ways() -> None:
    SEEN.clear()
    for seed in range(4):
        story = LongStory(Random(seed))  # noqa: S311 - a test
        for _ in range(40 + 40 * seed):
            story.step()
        with few_undoable(2):
            asyncio.run(check(story.events))
    assert sorted(SEEN) == ["full", "late"]


async def check(events: Sequence[Event], story: LongStory | None = None, pruned: int = 1) -> None:
    log = MemoryLog(lambda: 1)
    lease = await log.create(record(), this_owner())
    await log.append(Batch(SESSION, lease.epoch, 0, list(events)))
    await log.prune(lease, pruned)
    full, late = observed(events[pruned - 1 :]), await opened(log, len(events))
    await compare(late, full)
    if story is None:
        return
    for _ in range(40):  # it goes on, with more compactions and undos
        known = len(story.events)
        story.step()
        for event in story.events[known:]:
            body = event.body()
            assert body is not None
            if isinstance(body, SessionCompacted) and body.undo:
                if not late.transcript.compactions.can_undo:
                    await late.reread()
                assert late.transcript.compactions.can_undo
            await log.append(Batch(SESSION, lease.epoch, event.seq - 1, [event]))
            for prompts in (full, late):
                prompts.observe(event.seq, body)
            assert late.transcript.closed() == full.transcript.closed()
    await compare(late, full)
    await compare(await opened(log, len(story.events)), full)


async def compare(late: Prompts, full: Prompts) -> None:
    """Everything that the next request, the next compaction and the next undo depend on."""
    ours, theirs = late.transcript, full.transcript
    assert ours.closed() == theirs.closed()
    assert ours.entries() == theirs.entries()
    assert (ours.asked, ours.summary, ours.first_seq) == (theirs.asked, theirs.summary, theirs.first_seq)
    assert ours.compactions.is_deep == theirs.compactions.is_deep
    assert late.known_calls(4).is_complete == full.known_calls(4).is_complete
    assert not late.known_calls(4).is_complete or ours.call_ids == theirs.call_ids
    assert vars(vars(late)["_window"]) == vars(vars(full)["_window"])
    assert pinned(await late.complete_pins()) == pinned(await full.complete_pins())


def pinned(pins: Pins) -> dict[str, object]:
    """All but the places of the first event and of the last reply, which depend on the types that are read."""
    parts = pins.parts()
    texts = {name: value for name, value in vars(pins).items() if name not in ("_asked_at", "_first_seq")}
    return {**texts, "is_pruned": pins.is_pruned, "order": (list(parts.files), list(parts.skills))}


def observed(events: Sequence[Event]) -> Prompts:
    prompts = Prompts(PromptSettings())
    for event in events:
        body = event.body()
        assert body is not None
        prompts.observe(event.seq, body)
    return prompts


async def opened(log: MemoryLog, last_seq: int) -> Prompts:
    """As a session is opened."""
    prompts, past = Prompts(PromptSettings()), await read_past(log, SESSION, last_seq)
    base = await past.find_base()
    SEEN.add("full" if base is None else "late")
    if base is not None:
        prompts.begin_late(base.first, base.seq)
    async for page in past.pages(Native.lasting, base):
        for event, body in page:
            assert body is not None
            assert (
                base is None
                or event.seq >= base.first
                or event.type in (*("session_started", "model_switched", "approval_policy_changed", "usage"),)
            )
            prompts.observe(event.seq, body)
    prompts.use_log(past.reader(Native.lasting))
    return prompts


def forked(events: Sequence[Event]) -> list[Event]:
    started = events[0].body()
    assert isinstance(started, SessionStarted)
    compacted = [body.through_seq for event in events if isinstance(body := event.body(), SessionCompacted)]
    copier = Copier(started, 1, compacted)
    copies = [copier.begin(), *(copier.copy(event) for event in events[1:] if event.type in COPIED)]
    return [*copies, *copier.end(SESSION, len(events), "cli", 1)]
