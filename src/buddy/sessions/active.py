"""One run as its backend sees it: `backends.contract.Run` over the session's journal, approvals and inbox."""

import asyncio
from collections.abc import Awaitable, Callable

from buddy import faults
from buddy.approvals.questions import Question, Ruling
from buddy.backends.runstate import OpenCall, RunState
from buddy.errors import ToolError
from buddy.log.contract import Claim
from buddy.protocol.codes import Tier
from buddy.protocol.events import ApprovalExpired, AssistantMessage, EventBody, ToolClaimed, ToolResult
from buddy.protocol.intents import Intent
from buddy.scrub.marks import has_mark
from buddy.sessions.approvals import Approvals
from buddy.sessions.file_tracker import FileTracker
from buddy.sessions.hook_points import HookPoints
from buddy.sessions.journal import Journal, Rows
from buddy.sessions.questions import Questions
from buddy.sessions.run_hooks import RunHooks
from buddy.steps import take_turns
from buddy.tools.contract import Place

STREAMED_PER_CALL = 1024 * 1024


class ActiveRun:
    def __init__(
        self,
        state: RunState,
        place: Place,
        journal: Journal,
        approvals: Approvals,
        questions: Questions,
        *,
        clock: Callable[[], int],
        hooks: HookPoints,
        put_blob: Callable[[bytes], Awaitable[str]],
        record_steering: Callable[[], Awaitable[bool]],
        files: FileTracker,
        stop_children: Callable[[], Awaitable[None]],
        check_day: Callable[[], None] | None = None,
    ) -> None:
        self.session_id = journal.lease.session_id
        self.run_id = state.run_id
        self.place = place
        self.check_day = check_day
        self._record_steering = record_steering
        self._stop_children = stop_children
        self._state = state
        self._journal = journal
        self._approvals = approvals
        self._questions = questions
        self.ask_person = questions.ask
        self._clock = clock
        self._put_blob = put_blob
        self.hooks = RunHooks(self, hooks)
        self._arguments: dict[str, str] = {}
        self._streamed: dict[str, int] = {}
        self.files = files
        self._intents: dict[str, Intent] = {}

    @property
    def state(self) -> RunState:
        return self._state

    def emit(self, body: EventBody) -> None:
        started = ""
        if type(body) is ToolResult:
            self._journal.end_streams()
            self._withdraw(body.call_id or "")
            started = self._started_call(body)
        elif body.facts.ends_reply:
            self._journal.end_streams()
            if type(body) is AssistantMessage:
                self._arguments = {call.call_id: call.arguments for call in body.tool_calls}
        self._journal.record(body, self.run_id)
        if started:
            self.files.end_soon(self.run_id, started)

    async def stream(self, kind: str, text: str) -> None:
        await self._journal.stream((kind, "", ""), text, self.run_id)

    async def stream_output(self, call_id: str, stream: str, text: str) -> None:
        """Shown up to a limit per call; the result keeps the rest."""
        streamed = self._streamed.get(call_id, 0)
        shown = text[: STREAMED_PER_CALL - streamed]
        if shown:
            self._streamed[call_id] = streamed + len(shown)
            await self._journal.stream(("tool_output", call_id, stream), shown, self.run_id)

    async def commit(self) -> None:
        await self._journal.commit()

    async def finish(self) -> None:
        await self._journal.commit(durable=True)

    async def claim(self, call_id: str, tier: Tier, digest: str) -> None:
        faults.reached("claim.before")
        if self._journal.holds_claims:
            await asyncio.get_running_loop().create_future()  # until the run's task is cancelled
        target = self.place.target.name
        self.emit(ToolClaimed(call_id=call_id, attempt=1, tier=tier, target=target, digest=digest))
        # Qualified by run: after a prune, earlier call ids are unknown, and some models reuse them.
        row = Rows(claim=Claim(f"{self.run_id}/{call_id}", 1, digest))
        intent = self._intents.pop(call_id, None)
        if not self.files.needs_begin(call_id, intent):
            await self._journal.commit(row, durable=True)
            faults.reached("claim.after")
            return
        # The look at the files takes about as long as syncing the claim to the disk. The call waits for both.
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.files.begin(self.run_id, call_id, intent))
                # Not in a task: so it is written at once, with what was recorded in this iteration of the event loop.
                await self._journal.commit(row, durable=True)
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        faults.reached("claim.after")

    async def consult_hooks(self, question: Question) -> bool:
        call = self._state.open_calls.get(question.call_id)
        judge = self._approvals.permissions.judge
        changed = await self.hooks.before_call(call, question, judge) if call is not None else None
        if changed is not None:
            self._arguments[question.call_id] = changed
        return changed is not None

    async def ask(self, question: Question) -> Ruling:
        if question.tier != "read-only":
            self._intents[question.call_id] = question.intent
        return await self._approvals.ask(question)

    async def record_steering(self) -> bool:
        found = await self._record_steering()
        if found:
            await self.hooks.screen_messages()
        return found

    async def stop_children(self) -> None:
        await self._stop_children()

    def seconds(self) -> float:
        elapsed = self._clock() - self._state.started_ts
        return elapsed / 1000 if elapsed > 0 else 0.0

    def arguments_of(self, call: OpenCall) -> str:
        known = self._arguments.get(call.item.call_id)
        if known is not None:
            return known
        if has_mark(call.arguments):
            raise ToolError("not run: the arguments contained a secret, which is not stored, so it can't be repeated")
        return call.arguments

    async def scrub_ahead(self, body: EventBody) -> None:
        if self._journal.is_streaming:
            await _finish_streams(self._journal, body)
        await self._journal.prepare(body)

    async def scrub_long(self, text: str) -> str:
        return await take_turns(self._journal.scrubber.text_steps(text))

    def scrub(self, text: str) -> str:
        return self._journal.scrubber.text(text)

    async def store(self, content: str | bytes) -> str:
        if isinstance(content, str):
            content = (await self.scrub_long(content)).encode(errors="replace")
        return await self._put_blob(content)

    def _started_call(self, body: ToolResult) -> str:
        """The call that ends with this result, if it may have changed files."""
        if not body.call_id:
            return ""
        call = self._state.open_calls.get(body.call_id)
        return body.call_id if call is not None and (call.is_claimed or call.is_delegate) else ""

    def _withdraw(self, call_id: str) -> None:
        """Expire the questions of a call that ends: nobody could answer them any longer."""
        self._questions.withdraw(call_id)
        call = self._state.open_calls.get(call_id)
        if call is not None and call.stage == "awaiting" and call.approval is not None:
            self._journal.record(ApprovalExpired(approval_id=call.approval.approval_id), self.run_id)


async def _finish_streams(journal: Journal, body: EventBody) -> None:
    """Those that this event ends."""
    if body.facts.ends_reply:
        await journal.finish_streams("thinking_token")
        await journal.finish_streams("assistant_token")
    elif type(body) is ToolResult:
        await journal.finish_streams("tool_output", body.call_id or "")
