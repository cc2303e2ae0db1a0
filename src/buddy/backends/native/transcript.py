"""The conversation as a provider must see it: a pure fold of a session's events.

What always holds: each tool call has exactly one result, directly after the message that made it, in the order of the
calls. `items` only grows, except by a compaction or its undoing, so wires may keep what they encoded.
"""

from buddy.models.contract import AssistantItem, Item, ToolItem, UserItem
from buddy.protocol.events import AssistantMessage, EventBody, SessionCompacted, ToolResult, UserMessage

NOT_RUN = "Not run: the run was interrupted before this call started."


class Transcript:
    """Feed it events in order; `items` is what a provider may be sent."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.call_ids: set[str] = set()
        self._entries: list[tuple[int, Item]] = []
        self._compactions: list[SessionCompacted] = []
        self._open: list[str] = []
        self._results: dict[str, str] = {}
        self._asked_at = 0

    def apply(self, seq: int, body: EventBody) -> None:
        match body:
            case UserMessage():
                self._close_calls()
                self._add(seq, UserItem(body.text))
            case AssistantMessage() if body.text or body.tool_calls:
                self._close_calls()
                self._add(seq, AssistantItem(body.text, body.tool_calls, body.opaque))
                self._open = [call.call_id for call in body.tool_calls]
                self.call_ids.update(self._open)
                self._asked_at = seq
            case ToolResult() if body.call_id in self._open:
                self._results[body.call_id] = body.text
                self._settle()
            case SessionCompacted():
                self._compact(body)
            case _:
                pass

    def entries(self) -> list[tuple[int, Item]]:
        """What is told now, each item with the seq of the event it came from; a summary has 0."""
        through = self._compactions[-1].through_seq if self._compactions else 0
        told = [(seq, item) for seq, item in self._entries if seq > through]
        return [(0, self.items[0]), *told] if self._compactions else told

    def closed(self) -> list[Item]:
        """The items, with a result made up for every call that has none yet: valid at every prefix of the log."""
        if not self._open:
            return self.items
        return [*self.items, *(ToolItem(call_id, self._results.get(call_id, NOT_RUN)) for call_id in self._open)]

    def _add(self, seq: int, item: Item) -> None:
        self.items.append(item)
        self._entries.append((seq, item))

    def _settle(self) -> None:
        # Results may come in any order and are told in the order of the calls. They count as said when the call was
        # made, so that no compaction can fall between a call and its result.
        while self._open and self._open[0] in self._results:
            call_id = self._open.pop(0)
            self._add(self._asked_at, ToolItem(call_id, self._results.pop(call_id)))

    def _close_calls(self) -> None:
        for call_id in self._open:
            self._results.setdefault(call_id, NOT_RUN)
        self._settle()

    def _compact(self, body: SessionCompacted) -> None:
        if not body.undo:
            self._compactions.append(body)
        elif self._compactions:
            self._compactions.pop()
        latest = self._compactions[-1] if self._compactions else None
        through = latest.through_seq if latest else 0
        self.items = [item for seq, item in self._entries if seq > through]
        if latest:
            self.items.insert(0, UserItem(latest.summary))
