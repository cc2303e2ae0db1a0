"""What an event type declares about itself, so that nothing else keeps a list of event types."""

from typing import ClassVar

from msgspec import Struct

from buddy.protocol.shapes import Shape


class EventFacts(Struct, frozen=True, kw_only=True):
    """The facts of one event type; each is read by deriving a set of types from it."""

    name: str = ""
    """Its name on the wire, if that is not the class name in snake_case."""
    of_run: bool = False
    """It belongs to a run, so its envelope always names one."""
    lasts: bool = False
    """The session, or the native agent, needs it after its run is over."""
    lasts_for_agents: bool = False
    """An external agent's history needs it after its run is over."""
    transient: bool = False
    """It reports progress of something that a later event reports completely."""
    ends_reply: bool = False
    """No reply is being streamed after it."""
    copied: bool = False
    """A fork copies it."""
    ends_step: bool = False
    """A fork may cut after it, provided that no call is open."""
    decides: bool = False
    """It belongs in the audit of decisions."""
    traced: bool = False
    """A trace is made from it."""
    for_parent: bool = False
    """A sub-agent's event that clients of its parent session receive, too."""


class Payload(Shape, frozen=True):
    """An event's payload. `blobs` names the strings that were too long for a frame: field path → blob id."""

    facts: ClassVar[EventFacts] = EventFacts()
    blobs: dict[str, str] | None = None


class Informational(Payload, frozen=True):
    """Only reports something: neither a session's state nor that of the native agent depends on it.

    What an external agent reports of itself may be recorded by such an event.
    """
