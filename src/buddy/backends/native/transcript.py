"""The conversation as a provider must see it: a pure fold of a session's events.

Invariants: each tool call has exactly one result, directly after the message that made it, in the order of the calls.
`items` only grows, except by a compaction or its undoing, so wires may cache what they encoded; what a hook adds to an
item comes before that is sent. The message that is
being worked on stays word for word, even if a compaction has summarised the work on it. A bounded transcript holds
what came after the oldest of its last `UNDOABLE` + 1 compactions; older ones are restored from the log.
"""

from msgspec.structs import replace

from buddy.backends.hooks import BLOCKED, render_context
from buddy.backends.native.compactions import Compactions
from buddy.backends.restored import restored_note
from buddy.models.contract import AssistantItem, Image, Item, ToolItem, UserItem
from buddy.protocol.events import (
    INTERRUPTED,
    AcceptanceResult,
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    CancelScheduled,
    ChildFinished,
    ChildStarted,
    EventBody,
    FilesRestored,
    HookFinished,
    Informational,
    ModelRequest,
    ModelSwitched,
    QuestionAnswered,
    QuestionAsked,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionForked,
    SessionStarted,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.protocol.shapes import Attachment

NOT_RUN = "Not run: the run was interrupted before this call started."
CUT_OFF = "[This reply was stopped here, before it was complete.]"


_UNSAID = frozenset({AssistantToken, ThinkingToken, ModelRequest, Usage, ToolCall})  # most events


class Transcript:
    """Feed it events in order; `items` is what a provider may be sent."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self.call_ids: set[str] = set()
        self.asked: UserItem | None = None
        self.has_images = False
        """Whether an item ever had any."""
        self.compactions = Compactions()
        self._seqs: list[int] = []
        self._entries: list[tuple[int, Item]] = []
        self._open: list[str] = []
        self._results: dict[str, ToolItem] = {}
        self._remarks: dict[str, str] = {}
        self._asked_ids: dict[str, UserItem] = {}
        self._context = ""
        self._inserted: dict[str, tuple[str, int]] = {}
        self._asked_at = 0

    def bound(self) -> None:
        """From now on, hold only what undoing `UNDOABLE` compactions restores."""
        self.compactions.is_bounded = True
        self._trim()

    def apply(self, seq: int, body: EventBody) -> None:
        if type(body) in _UNSAID:
            return
        match body:
            case ToolResult():
                self._finish(body)
            case AssistantMessage():
                self._reply(seq, body)
            case UserMessage():
                self._say(seq, body)
            case ApprovalReceived():
                # The comment of a denial is already in the call's result.
                if body.comment and body.decision == "approve" and body.call_id in self._open:
                    self._remark(body.call_id, f"\n\n[allowed by {body.by}, who said: {body.comment}]")
            case HookFinished() | FilesRestored():
                self._note(body)
            case SessionCompacted():
                self._compact(seq, body)
            case (
                Informational()
                | AssistantToken()
                | ThinkingToken()
                | ModelRequest()
                | Usage()
                | ToolCall()
                | SessionStarted()
                | ApprovalRequired()
                | RunComplete()
                | RunStarted()
                | RunCancelling()
                | CancelScheduled()
                | ChildStarted()
                | ChildFinished()
                | AssistantRestart()
                | ToolClaimed()
                | ApprovalExpired()
                | ApprovalPolicyChanged()
                | ModelSwitched()
                | SessionForked()
                | AcceptanceResult()
                | QuestionAsked()
                | QuestionAnswered()
            ):
                pass  # not part of the conversation

    def _finish(self, result: ToolResult) -> None:
        call_id = result.call_id or ""
        if call_id in self._inserted:
            self._insert(*self._inserted.pop(call_id), result.text)
        elif call_id in self._open:
            text = result.text + self._remarks.pop(call_id, "")
            self._results[call_id] = ToolItem(call_id, text, self._images(result.attachments))
            self._settle()

    def _insert(self, message_id: str, number: int, text: str) -> None:
        """Add the output of a command to the message that it is part of."""
        asked = self._asked_ids.get(message_id)
        if asked is not None:
            text = text.replace("</output", "<\\/output")  # it cannot end its block
            output = f'<output number="{number}">\n{text}\n</output>'
            self._replace(asked, replace(asked, text=f"{asked.text}\n\n{output}"))

    def _say(self, seq: int, message: UserMessage) -> None:
        self._close_calls()
        said = (message.expanded or message.text) + self._context
        self.asked = UserItem(said, self._images(message.attachments))
        self._context = ""
        items = enumerate(message.insertions, 1)
        self._inserted = {item.call_id: (message.message_id, number) for number, item in items}
        self.call_ids.update(self._inserted)
        self._add(seq, self.asked)
        earlier = self._asked_ids if message.steers else {}
        self._asked_ids = {**earlier, message.message_id: self.asked}

    def _note(self, body: HookFinished | FilesRestored) -> None:
        """Add what a hook says to the result or the message it is about, and take out a message that it refused."""
        if isinstance(body, FilesRestored):
            self._context += restored_note(body)
            return
        asked = self._asked_ids.get(body.message_id or "")
        unsent = self.asked if self.items and self.items[-1] is self.asked else None
        if body.event == "UserPromptSubmit" and body.verdict == "deny" and asked is not None:
            self._replace(asked, UserItem(BLOCKED))
        elif body.context is None:
            return
        elif body.call_id is not None:
            self._remark(body.call_id, render_context(body))
        elif (said := asked or unsent) is not None:
            self._replace(said, replace(said, text=said.text + render_context(body)))
        else:
            self._context += render_context(body)

    def _remark(self, call_id: str, text: str) -> None:
        if call_id in self._results:
            found = self._results[call_id]
            self._results[call_id] = replace(found, text=found.text + text)
        elif call_id in self._open:
            self._remarks[call_id] = self._remarks.get(call_id, "") + text
        for item in reversed(self.items):
            if isinstance(item, ToolItem) and item.call_id == call_id:
                self._replace(item, replace(item, text=item.text + text))
                return

    def _replace(self, old: Item, new: Item) -> None:
        self.items = [new if item is old else item for item in self.items]
        self._entries = [(seq, new if item is old else item) for seq, item in self._entries]
        if isinstance(new, UserItem):
            self.asked = new if self.asked is old else self.asked
            self._asked_ids = {known: new if item is old else item for known, item in self._asked_ids.items()}

    def _reply(self, seq: int, message: AssistantMessage) -> None:
        if not message.text and not message.tool_calls:
            return
        self._close_calls()
        text = f"{message.text.rstrip()}\n\n{CUT_OFF}" if message.finish == INTERRUPTED else message.text
        self._add(seq, AssistantItem(text, message.tool_calls, message.opaque))
        self._open = [call.call_id for call in message.tool_calls]
        self.call_ids.update(self._open)
        self._asked_at = seq

    def entries(self) -> list[tuple[int, Item]]:
        """The present items, each with the seq of the event it came from; a summary has 0."""
        return list(zip(self._seqs, self.items, strict=True))

    @property
    def summary(self) -> Item | None:
        """The item that replaces what was compacted."""
        return self.items[0] if self.compactions.latest else None

    @property
    def first_seq(self) -> int:
        """Where the word-for-word part begins: everything before it is in the summary."""
        latest = self.compactions.latest
        return latest.through_seq + 1 if latest else 0

    def closed(self) -> list[Item]:
        """The items, with an invented result for every call that has none yet: valid at every prefix of the log."""
        if not self._open:
            return self.items
        return [*self.items, *(self._results.get(call_id) or ToolItem(call_id, NOT_RUN) for call_id in self._open)]

    def _add(self, seq: int, item: Item) -> None:
        self.items.append(item)
        self._seqs.append(seq)
        self._entries.append((seq, item))

    def _settle(self) -> None:
        # Results may come in any order and are listed in the order of the calls. They have the seq of the call's
        # message, so that no compaction can fall between a call and its result.
        while self._open and self._open[0] in self._results:
            call_id = self._open.pop(0)
            self._add(self._asked_at, self._results.pop(call_id))

    def _close_calls(self) -> None:
        if self._open:
            for call_id in self._open:
                self._results.setdefault(call_id, ToolItem(call_id, NOT_RUN))
            self._settle()

    def _images(self, attachments: tuple[Attachment, ...]) -> tuple[Image, ...]:
        if not attachments:
            return ()
        self.has_images = True
        return tuple(Image(one.blob, one.media_type, one.name, one.width, one.height) for one in attachments)

    def _compact(self, seq: int, body: SessionCompacted) -> None:
        self.compactions.apply(seq, body)
        self._trim()
        entries, latest = self._entries, self.compactions.latest
        if latest is not None:
            entries = [(0, UserItem(latest.summary)), *_after(entries, latest.through_seq)]
        self._seqs, self.items = [seq for seq, _ in entries], [item for _, item in entries]

    def _trim(self) -> None:
        oldest = self.compactions.trim()
        if oldest is not None:
            self._entries = _after(self._entries, oldest.through_seq)


def _after(entries: list[tuple[int, Item]], through: int) -> list[tuple[int, Item]]:
    """What came after `through`, preceded by the last message of the user if that is older."""
    kept = [(seq, item) for seq, item in entries if seq > through]
    if any(isinstance(item, UserItem) for _, item in kept):
        return kept
    before = ((seq, item) for seq, item in reversed(entries) if seq <= through)
    asked = next(((seq, item) for seq, item in before if isinstance(item, UserItem)), None)
    return kept if asked is None else [asked, *kept]
