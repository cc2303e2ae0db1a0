"""Random sessions that were compacted often: events that a session could record, in a possible order."""

from random import Random

from msgspec.structs import replace

from buddy.backends.native.compact import cut_to_fit
from buddy.backends.native.sizes import Tally
from buddy.backends.native.transcript import Transcript
from buddy.protocol.envelopes import Event, event_of
from buddy.protocol.events import (
    ApprovalPolicyChanged,
    ApprovalReceived,
    AssistantMessage,
    AssistantToken,
    EventBody,
    FilesRestored,
    HookFinished,
    ModelSwitched,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionStarted,
    ToolCall,
    ToolClaimed,
    ToolResult,
    Usage,
    UserMessage,
)
from buddy.protocol.file_events import ChangedFile
from buddy.protocol.hook_events import HookEvent
from buddy.protocol.shapes import (
    BudgetLimits,
    BudgetState,
    ContextState,
    Criterion,
    StartedOptions,
    ToolCallItem,
)
from tests.log.records import SESSION


class LongStory:
    """Built step by step; `events` is the log so far."""

    def __init__(self, random: Random) -> None:
        self.events: list[Event] = []
        self.run_id: str | None = None
        self._random = random
        self._transcript = Transcript()
        self._depth = 0
        self._open: list[ToolCallItem] = []
        self._calls = 0
        self.add(
            SessionStarted(
                session_id=SESSION, state="idle", mode="interactive", provider="default", sandbox_provider="local"
            )
        )

    def add(self, body: EventBody) -> None:
        seq = len(self.events) + 1
        self.events.append(event_of(body, session_id=SESSION, seq=seq, ts=seq, run_id=self.run_id))
        self._transcript.apply(seq, body)

    def step(self) -> None:
        """The next event, or a few."""
        if self.run_id is None:
            self._random.choice((self._begin, self._begin, self._begin, self._set, self._compact, self._undo))()
        else:
            done = (self._reply, self._reply, self._answer, self._answer, self._steer, self._hook)
            self._random.choice((*done, self._compact, self._end, self._end))()

    def finish(self) -> None:
        """End the run that is open."""
        if self.run_id is not None:
            self._end()

    def _begin(self) -> None:
        self.run_id = f"run_{len(self.events)}"
        self._say()
        options = StartedOptions(budget=BudgetLimits(), acceptance_criteria=(Criterion("made", "test -s it"),))
        self.add(RunStarted(run_id=self.run_id, options=options))

    def _say(self, *, steers: bool = False, by: str = "cli") -> None:
        name = f"msg_{len(self.events)}"
        inserted = (self._call("run_shell", '{"command":"date"}'),) if self._chance(6) else ()
        text = f"{'Never' if self._chance(4) else 'Now'} do the task {name}."
        self.add(UserMessage(message_id=name, text=text, by=by, steers=steers, insertions=inserted))
        self._open = list(inserted)
        if self._chance(4):
            said = _hook("UserPromptSubmit", context=f"context of {name}", message_id=name)
            self.add(replace(said, verdict="deny") if self._chance(3) else said)

    def _steer(self) -> None:
        self._open = []
        self._say(steers=self._chance(2), by="acceptance" if self._chance(3) else "cli")

    def _reply(self) -> None:
        calls = tuple(self._some_call() for _ in range(self._random.randrange(3)))
        self._open = list(calls)
        self.add(AssistantToken(text="a piece"))
        self.add(AssistantMessage(message_id="asst", text="x" * 50, tool_calls=calls, finish="stop", truncated=False))
        budget = BudgetState(1, 10, 0, 1.0, BudgetLimits())
        used = ContextState(1, 1000 + len(self.events), assumed=self._chance(3))
        self.add(Usage(turn=1, input_tokens=1, output_tokens=1, context=used, budget=budget))

    def _answer(self) -> None:
        if not self._open:
            return
        call = self._open.pop(self._random.randrange(len(self._open)))
        self.add(ToolCall(source="sandbox", tool_name=call.name, args={}, call_id=call.call_id))
        if self._chance(3):
            self.add(
                ApprovalReceived(
                    approval_id="appr_1", decision="approve", by="cli", call_id=call.call_id, comment="careful"
                )
            )
        if self._chance(2):
            self.add(ToolClaimed(call_id=call.call_id, attempt=1, digest="d", tier="read-only", target="local"))
        self.add(
            ToolResult(
                source="sandbox",
                tool_name=call.name,
                duration_ms=1,
                is_error=False,
                text=f"result of {call.call_id}",
                structured_error=None,
                call_id=call.call_id,
            )
        )
        if self._chance(5):
            self.add(_hook("PostToolUse", context="checked", call_id=call.call_id))

    def _hook(self) -> None:
        self.add(_hook("Stop", context=f"a remark at {len(self.events)}"))

    def _end(self) -> None:
        self._open = []
        self.add(RunComplete(run_id=self.run_id or "", outcome="success", summary="done"))
        self.run_id = None

    def _set(self) -> None:
        names = {"profile": f"p{len(self.events)}", "model": "m"}
        self.add(
            self._random.choice(
                (
                    ModelSwitched(before=names, after=names, by="cli"),
                    ApprovalPolicyChanged(policy="ask", by="cli", plan=self._chance(2)),
                    FilesRestored(checkpoint_id="cp", files=(ChangedFile("a.txt", "deleted", 0, 1),), by="cli"),
                    _hook("SessionStart", context=f"a note at {len(self.events)}"),
                )
            )
        )

    def _compact(self) -> None:
        cut = cut_to_fit(self._transcript, Tally(""), self._random.randrange(10, 60)) if not self._open else None
        if cut is not None:
            summary = f"the summary at {len(self.events)}"
            self.add(_compacted(summary, cut.through))
            self._depth += 1

    def _undo(self) -> None:
        for _ in range(self._random.choice((1, 1, 2, 5))):
            if self._depth:
                self.add(replace(_compacted("", 0), undo=True))
                self._depth -= 1

    def _some_call(self) -> ToolCallItem:
        kinds = [("skill", '{"name":"review"}'), ("write_file", f'{{"path":"f{self._random.randrange(5)}"}}')]
        return self._call(*self._random.choice(kinds))

    def _call(self, name: str, arguments: str) -> ToolCallItem:
        self._calls += 1
        return ToolCallItem(f"call_{self._calls}", name, arguments)

    def _chance(self, one_in: int) -> bool:
        return self._random.randrange(one_in) == 0


def _hook(event: HookEvent, *, context: str, **about: str) -> HookFinished:
    said = HookFinished(hook="check", event=event, verdict="none", duration_ms=1, context=context)
    return replace(said, **about)


def _compacted(summary: str, through: int) -> SessionCompacted:
    return SessionCompacted(before_tokens=9, after_tokens=1, through_seq=through, summary=summary, by="cli")
