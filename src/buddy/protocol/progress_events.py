"""What a run reports of itself while it works; nothing depends on it."""

from typing import Annotated, Literal

from msgspec import Meta

from buddy.protocol.codes import Tier
from buddy.protocol.facts import EventFacts, Informational
from buddy.protocol.shapes import Positive


class Status(Informational, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, lasts_for_agents=True)
    source: str
    phase: str
    detail: str | None = None


class ToolOutput(Informational, frozen=True, kw_only=True):
    facts = EventFacts(of_run=True, transient=True)
    call_id: str
    stream: Literal["stdout", "stderr"]
    text: str


class Progress(Informational, frozen=True, kw_only=True):
    """`tiers` names the tier of each tool that exists; `elapsed_seconds` is set while a tool keeps running."""

    facts = EventFacts(transient=True)
    kind: Literal["provider_call", "tool_execution", "rolling_summary"]
    message: str
    turn: Positive
    max_turns: Positive
    tool_names: tuple[str, ...] | None = None
    tiers: dict[str, Tier] | None = None
    elapsed_seconds: Annotated[float, Meta(ge=0)] | None = None


class Phase(Informational, frozen=True, kw_only=True):
    facts = EventFacts(transient=True)
    name: str
    duration_ms: Annotated[float, Meta(ge=0)]
