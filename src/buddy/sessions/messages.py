"""Checks on a user's message, and the options under which its run starts.

Invariant: whatever can be wrong with a message is found here, before anything about it is recorded.
"""

import hashlib
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.json import decode, encode

from buddy.approvals.deadlines import Moment
from buddy.approvals.policy import parse_policy
from buddy.backends.contract import Backend
from buddy.errors import ProtocolError
from buddy.protocol.basics import MAX_TEXT
from buddy.protocol.events import SessionStarted, StartedOptions, UserMessage
from buddy.protocol.requests import SendUserMessage
from buddy.protocol.shapes import AcceptanceOptions, Attachment, BudgetLimits, RunOptions, ToolCallItem
from buddy.scrub import Scrubber
from buddy.scrub.marks import OPENING
from buddy.steps import take_turns
from buddy.tools.contract import Place

if TYPE_CHECKING:
    from buddy.tools.skills.expansion import Expansion


class ScrubbedText(Struct, frozen=True):
    """A message as it is recorded; `redacted` counts what was hidden by guess."""

    text: str
    redacted: int = 0


async def scrub_message(scrubber: Scrubber, text: str, *, as_is: bool) -> ScrubbedText:
    """Scrub a person's words; as they are, only registered secrets are hidden."""
    certain = await take_turns(scrubber.registered_steps(text))
    if as_is:
        return ScrubbedText(certain)
    scrubbed = await take_turns(scrubber.text_steps(text))
    return ScrubbedText(scrubbed, max(0, scrubbed.count(OPENING) - certain.count(OPENING)))


def check_text(text: str, images: Sequence[Attachment]) -> None:
    if not text.strip() and not images:
        raise ProtocolError("INVALID_REQUEST", "text is empty, and there is no image")
    if len(text.encode(errors="replace")) > MAX_TEXT:
        raise ProtocolError(
            "INVALID_REQUEST", f"text is longer than {MAX_TEXT // 1024} KiB; put it into a file and give its path"
        )


def pruned_message() -> ProtocolError:
    return ProtocolError("INVALID_REQUEST", "this clientMessageId was used before, and its run was pruned from the log")


def check_criteria(message: SendUserMessage) -> None:
    ids = [criterion.id for criterion in message.acceptance_criteria]
    if len(set(ids)) < len(ids):
        raise ProtocolError("INVALID_REQUEST", "acceptanceCriteria ids must be unique")
    if any("\0" in criterion.check for criterion in message.acceptance_criteria):
        raise ProtocolError("INVALID_REQUEST", "a check of acceptanceCriteria contains a NUL character")


def stored_id(scrubber: Scrubber, client_message_id: str, known: Container[str]) -> str:
    """The id as it is stored: a digest instead of one that contains a secret, so that it still names one run.

    It is looked for as a digest in any case: what is a secret may have changed since it was stored.
    """
    digest = "msg_" + hashlib.sha256(client_message_id.encode(errors="surrogatepass")).hexdigest()[:40]
    is_clean = scrubber.text(client_message_id, random=False) == client_message_id
    return client_message_id if is_clean and digest not in known else digest


async def check_cost(backend: Backend, place: Place, limits: BudgetLimits) -> None:
    """Refuse a cost limit that could not be enforced; getting the price may take a moment."""
    if limits.max_cost_usd is None or await backend.is_priced(place):
        return
    model = backend.model()
    ours = f"set input_price and output_price in [models.{model.profile}], or limit turns, tokens or time instead"
    theirs = f"{model.profile} does not report its cost: limit turns, tokens or time instead"
    raise ProtocolError(
        "INVALID_REQUEST",
        f"the cost limit can't be enforced: the price of {model.model or model.profile} is unknown",
        detail=ours if backend.name == "native" else theirs,
    )


def options_of(message: SendUserMessage, started: SessionStarted | None, now: Moment, max_turns: int) -> StartedOptions:
    """The options of the run: its own, then the session's, then the defaults."""
    requested = message.options or RunOptions()
    outer = started.options.budget if started and started.options else None
    return StartedOptions(
        budget=_budget(requested.budget or BudgetLimits(), outer or BudgetLimits(), max_turns),
        approval_policy=parse_policy(requested.approval_policy, now).text() if requested.approval_policy else None,
        acceptance_criteria=message.acceptance_criteria,
        max_rounds=(message.acceptance or AcceptanceOptions()).max_rounds,
    )


def _budget(mine: BudgetLimits, theirs: BudgetLimits, max_turns: int) -> BudgetLimits:
    return BudgetLimits(
        max_turns=mine.max_turns or theirs.max_turns or max_turns,
        max_cost_usd=mine.max_cost_usd or theirs.max_cost_usd,
        max_tokens=mine.max_tokens or theirs.max_tokens,
        max_seconds=mine.max_seconds or theirs.max_seconds,
        max_tool_calls=mine.max_tool_calls or theirs.max_tool_calls,
    )


def event_of(message: SendUserMessage, by: str, redacted: int) -> UserMessage:
    """A message as it is recorded."""
    return UserMessage(
        message_id=message.client_message_id,
        text=message.text,
        by=by,
        redacted=redacted,
        as_is=message.options is not None and message.options.as_is,
        attachments=message.attachments,
    )


class Expanded(Struct, frozen=True):
    """What a message stands for, if it is a slash command."""

    text: str | None = None
    insertions: tuple[ToolCallItem, ...] = ()


def expanded_message(found: "Expansion", message_id: str) -> Expanded:
    """The calls have ids that come from the message, so that they are the same after a restart."""
    return Expanded(
        found.text,
        tuple(
            ToolCallItem(f"insert{number}.{message_id}", "run_shell", encode({"command": command}).decode())
            for number, command in enumerate(found.commands, 1)
        ),
    )


def command_of(insertion: ToolCallItem) -> str:
    return decode(insertion.arguments, type=dict[str, str]).get("command", "")
