"""The history a provider is sent: valid at every prefix of any log, whatever was compacted, undone or cut off."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.backends.contract import Compaction
from buddy.backends.native.compact import Summary, cut_old_messages, cut_to_fit, shorten
from buddy.backends.native.pinned import Pins
from buddy.backends.native.sizes import Tally
from buddy.backends.native.transcript import CUT_OFF, NOT_RUN, Transcript
from buddy.models.contract import AssistantItem, Item, TokenUsage, ToolItem, UserItem
from buddy.protocol.events import (
    ApprovalReceived,
    AssistantMessage,
    AssistantToken,
    EventBody,
    RunComplete,
    SessionCompacted,
    ToolResult,
    UserMessage,
)
from buddy.protocol.file_events import ChangedFile, FilesRestored
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import at_once
from tests.backends.wires import invalid_on_any_wire
from tests.harness.checker import invalid_conversation


def user(text: str) -> UserMessage:
    return UserMessage(message_id="msg_1", text=text, by="cli")


def assistant(text: str, *call_ids: str) -> AssistantMessage:
    items = tuple(ToolCallItem(call_id, "read_file", "{}") for call_id in call_ids)
    return AssistantMessage(message_id="asst_1", text=text, tool_calls=items, finish="stop", truncated=False)


def interrupted(text: str) -> AssistantMessage:
    return AssistantMessage(message_id="asst_1", text=text, tool_calls=(), finish="interrupted", truncated=True)


def result(call_id: str, text: str = "result") -> ToolResult:
    return ToolResult(
        source="unknown",
        tool_name="read_file",
        duration_ms=1,
        is_error=False,
        text=text,
        structured_error=None,
        call_id=call_id,
    )


def told(*bodies: EventBody) -> Transcript:
    transcript = Transcript()
    for seq, body in enumerate(bodies, 1):
        transcript.apply(seq, body)
    return transcript


def test_results_are_sent_in_the_order_of_their_calls() -> None:
    transcript = told(user("go"), assistant("", "a", "b"), result("b", "second"), result("a", "first"))
    assert transcript.items[2:] == [ToolItem("a", "first"), ToolItem("b", "second")]


def test_the_comment_of_an_approval_is_sent_with_the_result() -> None:
    approved = ApprovalReceived(approval_id="appr_1", decision="approve", by="cli", call_id="a", comment="but be quick")
    transcript = told(user("go"), assistant("", "a", "b"), approved, result("a", "done"), result("b", "done"))
    assert transcript.items[2:] == [
        ToolItem("a", "done\n\n[allowed by cli, who said: but be quick]"),
        ToolItem("b", "done"),
    ]


def test_a_call_without_a_result_gets_one_before_the_next_message() -> None:
    transcript = told(user("go"), assistant("", "a", "b"), result("b", "second"))
    assert transcript.closed()[2:] == [ToolItem("a", NOT_RUN), ToolItem("b", "second")]
    transcript.apply(9, user("more"))
    assert transcript.items[2:] == [ToolItem("a", NOT_RUN), ToolItem("b", "second"), UserItem("more")]


def test_deltas_and_empty_replies_are_not_part_of_the_history() -> None:
    transcript = told(user("go"), AssistantToken(text="hal"), assistant(""))
    assert transcript.closed() == [UserItem("go")]


def test_a_reply_that_was_stopped_is_sent_with_a_mark() -> None:
    transcript = told(user("go"), AssistantToken(text="hal"), interrupted("hal \n"))
    assert transcript.items == [UserItem("go"), AssistantItem(f"hal\n\n{CUT_OFF}")]


def test_a_second_compaction_right_after_the_first_has_nothing_to_do() -> None:
    transcript = told(*(user(f"{number} " + "x" * 400) for number in range(8)))
    first = cut_old_messages(transcript, Tally(""))
    assert first is not None
    transcript.apply(9, compacted("short", first.through))
    assert cut_old_messages(transcript, Tally("")) is None


def test_the_current_message_is_sent_even_if_all_its_turns_are_summarised() -> None:
    transcript = told(user("go"), assistant("", "a"), result("a"), assistant("", "b"), result("b"))
    transcript.apply(6, compacted("short", 2))
    assert [type(item) for item in transcript.items] == [UserItem, UserItem, AssistantItem, ToolItem]
    assert transcript.items[:2] == [UserItem("short"), UserItem("go")]
    transcript.apply(7, user("more"))
    transcript.apply(8, compacted("shorter", 4))
    assert transcript.items == [UserItem("shorter"), UserItem("more")]


def test_a_message_that_was_too_long_is_cut_after_the_next_one() -> None:
    transcript = told(user("go"), assistant("yes"), user("much " * 5000))
    first = cut_to_fit(transcript, Tally(""), 100)
    assert first is not None
    transcript.apply(4, compacted("short", first.through))
    assert cut_to_fit(transcript, Tally(""), 100) is None
    transcript.apply(5, user("more"))
    again = cut_to_fit(transcript, Tally(""), 100)
    assert again is not None
    assert [type(item) for item in again.old] == [UserItem, UserItem]
    transcript.apply(6, compacted("shorter", again.through))
    assert transcript.items == [UserItem("shorter"), UserItem("more")]


def compacted(summary: str, through_seq: int, *, undo: bool = False) -> SessionCompacted:
    return SessionCompacted(
        before_tokens=0, after_tokens=0, through_seq=through_seq, summary=summary, by="cli", undo=undo
    )


class Story:
    """A plausible log, built step by step: events that a session could record, in a possible order."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.pins = Pins()
        self.tally = Tally("")
        self.bodies: list[EventBody] = []
        self.seq = 0
        self.calls = 0
        self.open: list[str] = []
        self.whole: list[list[object]] = []

    def add(self, body: EventBody) -> None:
        self.seq += 1
        self.bodies.append(body)
        self.transcript.apply(self.seq, body)
        self.pins.apply(self.seq, body)

    def step(self, kind: int, size: int) -> None:
        text = "x" * (size * 50)
        match kind:
            case 0:
                self.open = []
                self.add(user(f"message {self.seq} {text}"))
            case 1:
                names = [f"call_{self.calls + number}" for number in range(size % 4)]
                self.calls += len(names)
                self.open = names
                self.add(assistant(text, *names))
            case 2 if self.open:
                self.add(result(self.open.pop(size % len(self.open)), text))
            case 3 if not self.open:
                self.compact(size)
            case 4 if not self.open:
                self.undo()
            case 6:
                self.open = []
                self.add(AssistantToken(text=f"half {text}"))
                self.add(interrupted(f"half {text}"))
            case _:
                self.add(RunComplete(run_id="run_1", outcome="failed", summary=""))

    def compact(self, size: int) -> None:
        found = asyncio.run(self.shortened(size))
        if found is None:
            return
        before = list(self.transcript.items)
        # A message that stands before its summary's end is there only while it is the last one.
        first = self.transcript.first_seq
        lasting = [item for seq, item in self.transcript.entries() if seq == 0 or seq >= first]
        self.add(compacted(found.summary, found.through_seq))
        after = self.transcript.items
        assert at_once(self.tally.items(after)) < at_once(self.tally.items(before))
        assert at_once(self.tally.items(after)) == found.after_tokens
        self.whole.append([item for item in lasting if item not in after])

    async def shortened(self, size: int) -> Compaction | None:
        """Manual or for lack of room; with a model that writes a summary, one that is too long, or nothing."""

        async def write(items: list[Item]) -> Summary | None:
            return Summary("and so on " * size**4, TokenUsage(1, 1)) if items and size % 3 else None

        tally = self.tally
        cut = cut_to_fit(self.transcript, tally, size * 100) if size % 2 else cut_old_messages(self.transcript, tally)
        return await shorten(cut, self.pins, tally, 8192, write) if cut else None

    def undo(self) -> None:
        if not self.whole:
            return
        gone = self.whole.pop()
        self.add(compacted("", 0, undo=True))
        assert all(item in self.transcript.items for item in gone)


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=60))
def test_the_history_is_valid_at_every_prefix(steps: list[tuple[int, int]]) -> None:
    story = Story()
    story.add(user("the first message"))
    for kind, size in steps:
        story.step(kind, size)
        assert invalid_conversation(story.transcript.closed()) is None
        assert invalid_on_any_wire(story.transcript.closed()) is None
        seqs = [seq for seq, _ in story.transcript.entries()]
        assert seqs == sorted(seqs)
        asked = {
            call.call_id for item in story.transcript.items if isinstance(item, AssistantItem) for call in item.calls
        }
        answered = {item.call_id for item in story.transcript.closed() if isinstance(item, ToolItem)}
        assert asked == answered
    assert rebuilt(story).closed() == story.transcript.closed()


def rebuilt(story: Story) -> Transcript:
    """As a restarted process reads it from the log."""
    return told(*story.bodies)


@settings(deadline=None)
@given(steps=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=40), at=st.integers(0, 60))
def test_a_log_cut_anywhere_continues_validly(steps: list[tuple[int, int]], at: int) -> None:
    story = Story()
    story.add(user("the first message"))
    for kind, size in steps:
        story.step(kind, size)
    short = told(*story.bodies[:at], user("go on from there"))
    assert invalid_on_any_wire(short.closed()) is None
    assert short.asked == UserItem("go on from there")


def test_the_model_learns_that_its_changes_were_undone() -> None:
    transcript = Transcript()
    transcript.apply(1, user("write it"))
    transcript.apply(2, assistant("written"))
    files = (ChangedFile("a.txt", "deleted", 0, 1),)
    transcript.apply(3, FilesRestored(checkpoint_id="cp_1", files=files, by="cli"))
    transcript.apply(4, user("go on"))
    assert transcript.items[-1] == UserItem(
        "go on\n\n[The user undid your changes to: a.txt. Read these files again before you rely on them.]"
    )
