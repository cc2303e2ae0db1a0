"""The history of a fork and of a pruned log: valid wherever it was cut, and nothing pinned is lost."""

from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.backends.native.pinned import SEPARATOR, Pins
from buddy.protocol.envelopes import event_of
from buddy.protocol.events import SessionCompacted, SessionStarted
from buddy.sessions.fork import COPIED, DECISIVE, Boundary, Copier
from buddy.steps import at_once
from tests.backends.test_transcript import Story, compacted, told, user
from tests.backends.wires import invalid_on_any_wire

STARTED = SessionStarted(session_id="sess_2", state="idle", mode="interactive", provider="p", sandbox_provider="local")


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=40), at=st.integers(0, 60))
def test_a_fork_from_anywhere_has_a_valid_history(steps: list[tuple[int, int]], at: int) -> None:
    story = Story()
    story.add(user("the first message"))
    for kind, size in steps:
        story.step(kind, size)
    entries = [
        (event_of(body, session_id="sess_1", seq=seq, ts=1, run_id=None), body)
        for seq, body in enumerate(story.bodies, 1)
    ]
    boundary, of_few = Boundary(), Boundary()
    for event, body in entries[:at]:
        boundary.observe(event, body)
        if event.type in DECISIVE:
            of_few.observe(event, body)
    assert boundary.seq == of_few.seq
    compacted_through = [body.through_seq for _, body in entries if isinstance(body, SessionCompacted)]
    copier = Copier(STARTED, 1, compacted_through)
    events = [copier.begin()]
    events += [copier.copy(event) for event, _ in entries[: boundary.seq] if event.type in COPIED]
    events += [*copier.end("sess_1", boundary.seq, "cli", 2)]
    copies = [body for event in events if (body := event.body())]
    transcript = told(*copies, user("go on"))
    assert invalid_on_any_wire(transcript.closed()) is None
    assert transcript.asked is transcript.closed()[-1]


def test_pinned_content_survives_a_prune() -> None:
    pins = Pins()
    pins.apply(40, compacted(f"[head]\nintroduction\n\nThe user said: never push{SEPARATOR}and so on", 30))
    pins.apply(41, user("a later message"))
    text = at_once(pins.text(100, len, 10_000))
    assert "The user said: never push" in text
    assert "a later message" in text
    assert "and so on" not in text
