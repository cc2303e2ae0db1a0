"""A shorter telling of the history: older turns become lines, the newest stay word for word."""

from buddy.backends.contract import Compaction
from buddy.backends.native.transcript import Transcript
from buddy.models.contract import AssistantItem, Item, ToolItem, UserItem

PREFIX = "[buddy compact summary]"
KEEP_TURNS = 3
MAX_LINES = 24
MAX_LINE = 180


def compaction_of(transcript: Transcript) -> Compaction | None:
    """Shorten everything before the last turns; None where that would not shrink it."""
    entries = transcript.entries()
    starts = [index for index, (_, item) in enumerate(entries) if isinstance(item, UserItem)]
    if len(starts) <= KEEP_TURNS:
        return None
    cut = starts[-KEEP_TURNS]
    old, kept = entries[:cut], entries[cut:]
    if not old[-1][0]:
        return None  # nothing but the summary of before is old
    summary = _summary([item for _, item in old])
    before = sum(tokens_of(item) for _, item in entries)
    after = sum(tokens_of(item) for _, item in kept) + len(summary) // 4 + 1
    if after >= before:
        return None
    return Compaction(summary, old[-1][0], before, after)


def tokens_of(item: Item) -> int:
    """About four characters to a token, and four tokens for the frame."""
    match item:
        case UserItem() | ToolItem():
            size = len(item.text)
        case AssistantItem():
            size = len(item.text) + sum(len(call.name) + len(call.arguments) for call in item.calls)
    return size // 4 + 4


def _summary(items: list[Item]) -> str:
    lines = [line for item in items for line in _lines(item)]
    left_out = len(lines) - MAX_LINES
    note = [f"- ({left_out} earlier lines left out)"] if left_out > 0 else []
    return "\n".join([PREFIX, "Earlier in this session, already done:", *note, *lines[-MAX_LINES:]])


def _lines(item: Item) -> list[str]:
    match item:
        case UserItem() if item.text.startswith(PREFIX):
            return item.text.split("\n")[2:]
        case UserItem():
            return [f"- user: {_short(item.text)}"]
        case AssistantItem():
            calls = ", ".join(call.name for call in item.calls)
            return [f"- assistant: {_short(item.text) or '[no text]'}{f' [tool calls: {calls}]' if calls else ''}"]
        case ToolItem():
            return [f"- tool: {_short(item.text)}"]


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= MAX_LINE else flat[: MAX_LINE - 1] + "…"
