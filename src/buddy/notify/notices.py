"""What is worth a notification, as data: a session needs somebody, or a run of it has finished.

Invariant: the same event makes the same notice with the same id, so a receiver recognizes one that comes twice.
"""

from typing import Literal

from msgspec import Struct

from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired, QuestionAsked, RunComplete

Kind = Literal["needs_you", "finished"]
MAX_TEXT = 300
TYPES = frozenset({"approval_required", "question_asked", "run_complete"})


class SessionPlace(Struct, frozen=True):
    """Which session it is, for people."""

    title: str
    root: str
    link: str
    """Where it can be seen: a page of the console, or a command."""
    is_child: bool = False


class Notice(Struct, frozen=True):
    id: str
    kind: Kind
    session_id: str
    run_id: str
    ts: int
    what: str
    """What it needs, or how it ended."""
    outcome: str = ""


def notice_of(event: Event) -> Notice | None:
    """The notice that an event is worth."""
    if event.type not in TYPES:
        return None
    body, run = event.body(), event.run_id or ""
    start = (f"{event.session_id}_{event.seq}",)
    match body:
        case ApprovalRequired():
            return Notice(*start, "needs_you", event.session_id, run, event.ts, short(f"{body.title}: {body.summary}"))
        case QuestionAsked():
            what = short(f"{body.source} asks: {body.message}")
            return Notice(*start, "needs_you", event.session_id, run, event.ts, what)
        case RunComplete():
            what = short(body.summary or body.outcome)
            return Notice(*start, "finished", event.session_id, run, event.ts, what, body.outcome)
        case _:
            return None


def headline(notice: Notice, place: SessionPlace) -> str:
    name = place.title or place.root.rpartition("/")[2] or notice.session_id
    if notice.kind == "needs_you":
        return short(f"Needs you: {name}")
    return short(f"{'Finished' if notice.outcome == 'success' else notice.outcome.capitalize()}: {name}")


def short(text: str) -> str:
    """On one line, without control characters, and not too long for a notification."""
    flat = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return flat if len(flat) <= MAX_TEXT else f"{flat[: MAX_TEXT - 1]}…"
