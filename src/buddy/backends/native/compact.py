"""A shorter telling of the history: older turns become a summary, the newest stay word for word.

What always holds: a cut lies between turns, never between a call and its result; the pinned part is kept word for word;
a compaction shrinks what is sent, else the next strategy is used: the model's own summary, then one line per item, then
the pinned part alone. The originals stay in the log, and undoing a compaction tells them again.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Literal

from msgspec import Struct

from buddy.backends.contract import Compaction
from buddy.backends.native.pinned import SEPARATOR, Pins
from buddy.backends.native.sizes import Tally
from buddy.backends.native.transcript import Transcript
from buddy.models.contract import AssistantItem, Item, TokenUsage, ToolItem, UserItem

PREFIX = "[buddy compact summary]"
INTRODUCTION = "The earlier part of this session is told in short. All of it has happened: do not do it again."
KEEP_TURNS = 3
MAX_LINES = 24
MAX_LINE = 180
PINNED_SHARE = 0.2
SUMMARY_SHARE = 0.1

Strategy = Literal["model", "lines", "dropped"]


class Written(Struct, frozen=True):
    """What a model wrote, and what it took."""

    text: str
    usage: TokenUsage


Write = Callable[[list[Item]], Awaitable[Written | None]]


class Cut(Struct, frozen=True):
    """Where the history is cut: what becomes a summary, up to which seq, and what stays."""

    old: list[Item]
    through: int
    asked_seq: int
    kept: int
    before: int


def cut_to_fit(transcript: Transcript, tally: Tally, room: int) -> Cut | None:
    """Keep as many of the newest turns as fit into `room` tokens; None where nothing is old then."""
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
    """Keep the last messages of the user and all that was done about them."""
    starts = [index for index, (_, item) in enumerate(transcript.entries()) if isinstance(item, UserItem)]
    return _cut(transcript, tally, starts[-KEEP_TURNS]) if len(starts) > KEEP_TURNS else None


async def shorten(cut: Cut, pins: Pins, tally: Tally, limit: int, write: Write) -> Compaction | None:
    """The first telling that is short enough; None where none is shorter than the history itself."""
    pinned = pins.told(cut.through, tally.text, int(limit * PINNED_SHARE), but=cut.asked_seq)
    written = await write(cut.old)
    tellings: list[tuple[Strategy, str, int]] = [
        ("lines", "\n".join(_lines_of(cut.old)), limit),
        ("dropped", "(left out; the log has it)", limit),
    ]
    if written is not None and written.text.strip():
        tellings.insert(0, ("model", written.text.strip(), int(limit * SUMMARY_SHARE)))
    for strategy, text, most in tellings:
        summary = _compose(pinned, text)
        after = cut.kept + tally.item(UserItem(summary))
        if after < cut.before and tally.text(text) <= most:
            return Compaction(
                summary, cut.through, cut.before, after, strategy, None if written is None else written.usage
            )
    return None


def _cut(transcript: Transcript, tally: Tally, at: int) -> Cut | None:
    entries = transcript.entries()
    asked = _asked(entries, at)
    old = [seq for seq, _ in entries[:at] if seq and not (asked and seq == asked[0])]
    if not old:
        return None  # nothing but what the summary before tells already, or what will be told all the same
    kept = sum(tally.item(item) for _, item in entries[at:])
    if asked is not None:
        kept += tally.item(asked[1])
    before = sum(tally.item(item) for _, item in entries)
    through = max(entries[at - 1][0], transcript.first_seq - 1)
    return Cut([item for _, item in entries[:at]], through, asked[0] if asked else 0, kept, before)


def _asked(entries: list[tuple[int, Item]], at: int) -> tuple[int, Item] | None:
    """The old message that will be told all the same, as no later one was said."""
    if any(isinstance(item, UserItem) for _, item in entries[at:]):
        return None
    said = [(seq, item) for seq, item in entries[:at] if seq and isinstance(item, UserItem)]
    return said[-1] if said else None


def told_before(item: Item) -> str | None:
    """What an earlier summary told beside its pinned part; None for any other item."""
    if isinstance(item, UserItem) and item.text.startswith(PREFIX):
        return item.text.rpartition(SEPARATOR)[2]
    return None


def _compose(pinned: str, text: str) -> str:
    told = text.replace(SEPARATOR.strip(), "")  # it must stay the last one: what is pinned is found by it
    return f"{PREFIX}\n{INTRODUCTION}\n\n{pinned}{SEPARATOR}{told}"


def _lines_of(items: list[Item]) -> list[str]:
    lines = [line for item in items for line in _lines(item)]
    left_out = len(lines) - MAX_LINES
    note = [f"- ({left_out} earlier lines left out)"] if left_out > 0 else []
    return [*note, *lines[-MAX_LINES:]]


def _lines(item: Item) -> Iterator[str]:
    before = told_before(item)
    match item:
        case UserItem() if before is not None:
            yield from (line for line in before.splitlines() if line.strip() and "earlier lines left out" not in line)
        case UserItem():
            yield f"- user: {_short(item.text)}"
        case AssistantItem():
            calls = ", ".join(call.name for call in item.calls)
            yield f"- assistant: {_short(item.text) or '[no text]'}{f' [tool calls: {calls}]' if calls else ''}"
        case ToolItem():
            yield f"- tool: {_short(item.text)}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_LINE else flat[: MAX_LINE - 1] + "…"
