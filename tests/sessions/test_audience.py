"""The latest events of a session in memory: what its followers still need, and no more."""

import asyncio

from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import AssistantToken
from buddy.sessions.audience import RECENT, Audience

SESSION = "sess_01J00000000000000000000000"


def events(first: int, last: int) -> list[Event]:
    return [event_of(AssistantToken(text="a"), session_id=SESSION, seq=seq, ts=0) for seq in range(first, last + 1)]


def seqs(audience: Audience, after: int) -> list[int] | None:
    found = audience.recent(after)
    return None if found is None else [event.seq for event in found]


def test_nothing_is_known_before_the_first_event():
    assert Audience().recent(0) is None


def test_what_is_newer_than_a_cursor_is_in_memory():
    audience = Audience()
    audience.publish(events(1, 3))
    audience.publish(events(4, 5))
    assert seqs(audience, 0) == [1, 2, 3, 4, 5]
    assert seqs(audience, 3) == [4, 5]
    assert seqs(audience, 5) == []
    assert seqs(audience, 9) == [], "a cursor beyond the last event waits"


def test_who_is_further_behind_reads_the_log():
    audience = Audience()
    audience.publish(events(1, RECENT + 2))
    assert seqs(audience, 1) is None
    assert seqs(audience, 2) == list(range(3, RECENT + 3))


def test_what_the_only_follower_has_received_is_not_held():
    audience = Audience()
    audience.listen(asyncio.Event())
    audience.publish(events(1, 5))
    audience.note_received(3)
    assert seqs(audience, 3) == [4, 5]
    assert seqs(audience, 2) is None, "another client that attaches there reads the log"
    audience.note_received(5)
    assert seqs(audience, 5) == [], "the follower knows that there is nothing newer without asking the log"
    audience.publish(events(6, 6))
    assert seqs(audience, 5) == [6]
    assert seqs(audience, 4) is None


def test_a_second_follower_that_is_slower_keeps_its_events_in_memory():
    audience, second = Audience(), asyncio.Event()
    audience.listen(asyncio.Event())
    audience.listen(second)
    audience.publish(events(1, 5))
    audience.note_received(5)
    assert seqs(audience, 0) == [1, 2, 3, 4, 5]
    audience.unlisten(second)
    audience.note_received(5)
    assert seqs(audience, 0) is None


def test_every_follower_is_woken_also_without_events():
    audience, first, second = Audience(), asyncio.Event(), asyncio.Event()
    audience.listen(first)
    audience.listen(second)
    audience.publish([])
    assert first.is_set()
    assert second.is_set()
