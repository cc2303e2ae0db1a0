"""A shorter form of the history: older turns become a summary, the newest stay word for word.

Invariants: a cut lies between turns, never between a call and its result; the pinned part is kept word for word; a
compaction shrinks what is sent, or the next strategy is tried: the model's own summary, then one line per item, then
the pinned part alone. The originals stay in the log, and undoing a compaction restores them.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Literal

from msgspec import Struct

from buddy.backends.contract import Compaction
from buddy.backends.native.pinned import SEPARATOR, Pins
from buddy.backends.native.sizes import Tally
from buddy.backends.native.transcript import Transcript
from buddy.models.contract import AssistantItem, Item, TokenUsage, ToolItem, UserItem, in_words
from buddy.steps import take_turns

PREFIX = "[buddy compact summary]"
INTRODUCTION = "This is a summary of the earlier part of this session. All of it has happened: do not do it again."
KEEP_TURNS = 3
MAX_LINES = 24
MAX_LINE = 180
PINNED_SHARE = 0.2
SUMMARY_SHARE = 0.1

Strategy = Literal["model", "lines", "dropped"]


class Summary(Struct, frozen=True):
    """What a model wrote, and the tokens it took."""

    text: str
    usage: TokenUsage


Summarise = Callable[[list[Item]], Awaitable[Summary | None]]


class Cut(Struct, frozen=True):
    """Where the history is cut: what becomes a summary, up to which seq, and what stays."""

    old: list[Item]
    through: int
    asked_seq: int
    kept: int
    before: int


def cut_to_fit(transcript: Transcript, tally: Tally, room: int) -> Cut | None:
    """Keep as many of the newest turns as fit into `room` tokens; None if nothing is left to summarise."""
    entries = transcript.entries()
    left, at = room, len(entries)
    for index in range(len(entries) - 1, 0, -1):
        left -= tally.item(entries[index][1])
        if left < 0:
            break
        if not isinstance(entries[index][1], ToolItem):
            at = index
    return _cut(transcript, tally, at)


def cut_old_messages(transcript: Transcript, tally: Tally) -> Cut | None:
    """Keep the last messages of the user and the work on them."""
    starts = [index for index, (_, item) in enumerate(transcript.entries()) if isinstance(item, UserItem)]
    return _cut(transcript, tally, starts[-KEEP_TURNS]) if len(starts) > KEEP_TURNS else None


async def shorten(cut: Cut, pins: Pins, tally: Tally, limit: int, summarise: Summarise) -> Compaction | None:
    """The first version that is short enough; None if none is shorter than the history itself."""
    pinned = await take_turns(pins.text(cut.through, tally.text, int(limit * PINNED_SHARE), but=cut.asked_seq))
    summary = await summarise(cut.old)
    versions: list[tuple[Strategy, str, int]] = [
        ("lines", "\n".join(_lines_of(cut.old)), limit),
        ("dropped", "(left out; the log has it)", limit),
    ]
    if summary is not None and summary.text.strip():
        versions.insert(0, ("model", summary.text.strip(), int(limit * SUMMARY_SHARE)))
    usage = summary.usage if summary is not None else None
    for strategy, text, most in versions:
        item = UserItem(_compose(pinned, text))
        after = cut.kept + tally.item(item)
        if after < cut.before and tally.text(text) <= most:
            return Compaction(item.text, cut.through, cut.before, after, strategy, usage)
    return None


def _cut(transcript: Transcript, tally: Tally, at: int) -> Cut | None:
    entries = transcript.entries()
    asked = _asked(entries, at)
    old = [seq for seq, _ in entries[:at] if seq and not (asked and seq == asked[0])]
    if not old:
        return None  # only what the last summary contains already, or what stays in the history anyway
    kept = sum(tally.item(item) for _, item in entries[at:])
    if asked is not None:
        kept += tally.item(asked[1])
    before = sum(tally.item(item) for _, item in entries)
    through = max(entries[at - 1][0], transcript.first_seq - 1)
    return Cut([item for _, item in entries[:at]], through, asked[0] if asked else 0, kept, before)


def _asked(entries: list[tuple[int, Item]], at: int) -> tuple[int, Item] | None:
    """The old message that stays in the history because there is no later one."""
    if any(isinstance(item, UserItem) for _, item in entries[at:]):
        return None
    said = [(seq, item) for seq, item in entries[:at] if seq and isinstance(item, UserItem)]
    return said[-1] if said else None


def earlier_summary(item: Item) -> str | None:
    """The text of an earlier summary without its pinned part; None for any other item."""
    if isinstance(item, UserItem) and item.text.startswith(PREFIX):
        return item.text.rpartition(SEPARATOR)[2]
    return None


def _compose(pinned: str, text: str) -> str:
    text = text.replace(SEPARATOR.strip(), "")  # ours must be the last one: it marks the end of the pinned part
    return f"{PREFIX}\n{INTRODUCTION}\n\n{pinned}{SEPARATOR}{text}"


def _lines_of(items: list[Item]) -> list[str]:
    lines = [line for item in items for line in _lines(item)]
    left_out = len(lines) - MAX_LINES
    note = [f"- ({left_out} earlier lines left out)"] if left_out > 0 else []
    return [*note, *lines[-MAX_LINES:]]


def _lines(item: Item) -> Iterator[str]:
    before = earlier_summary(item)
    match item:
        case UserItem() if before is not None:
            yield from (line for line in before.splitlines() if line.strip() and "earlier lines left out" not in line)
        case UserItem():
            yield f"- user: {_short(in_words(item))}"
        case AssistantItem():
            calls = ", ".join(call.name for call in item.calls)
            yield f"- assistant: {_short(item.text) or '[no text]'}{f' [tool calls: {calls}]' if calls else ''}"
        case ToolItem():
            yield f"- tool: {_short(in_words(item))}"


def _short(text: str) -> str:
    head = text[: 16 * MAX_LINE]
    flat = " ".join(head.split())
    return flat if len(flat) <= MAX_LINE and len(head) == len(text) else flat[: MAX_LINE - 1] + "…"
