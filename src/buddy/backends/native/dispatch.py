"""Tool dispatch: checks each call of a turn, has it decided and claimed, runs it and records its result.

Invariants: every open call ends with exactly one result; adjacent calls run concurrently if they only read or their
tools say so, all others alone, and results are recorded in the order of the calls; a call above read-only starts only
with a decision whose digest matches what would run now, and after its claim is in the log.
"""

import asyncio
import codecs
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any, Literal, cast, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy import faults
from buddy.approvals.authorize import ask_until_current, check_disk_space, claim
from buddy.approvals.digest import digest_of, nonce_of
from buddy.approvals.questions import Question
from buddy.backends.budget import Budget
from buddy.backends.contract import Run
from buddy.backends.interrupted import unknown_outcome
from buddy.backends.native.bounds import shorten_middle
from buddy.backends.native.result_images import with_stored_images
from buddy.backends.runstate import OpenCall
from buddy.capabilities import has
from buddy.errors import ToolError
from buddy.long_json import decode
from buddy.models.limits import find_refusal
from buddy.protocol.codes import ToolErrorType, ToolOutcome
from buddy.protocol.events import Recovery, ToolCall, ToolResult
from buddy.protocol.intents import Other
from buddy.protocol.shapes import ToolFailure
from buddy.steps import PART, Steps, Turns, at_once, take_turns
from buddy.targets.contract import OnOutput
from buddy.tools.contract import Call, Output, Resumable, Tool
from buddy.tools.registry import Registry

StreamName = Literal["stdout", "stderr"]


class PreparedCall(Struct, frozen=True):
    """A call that could run: its tool, its typed arguments, and the question whether it may."""

    tool: Tool[Struct]
    args: Struct
    question: Question


class Dispatch:
    """Works through the calls of one turn with the tools of that turn."""

    def __init__(self, registry: Registry, has_room: Callable[[], bool]) -> None:
        self._registry = registry
        self._has_room = has_room

    async def settle(self, run: Run) -> None:
        """Record a result for every open call of the run."""
        turns = Turns()
        for together, group in groupby(list(run.state.open_calls.values()), key=self._group):
            calls = list(group)
            if together and len(calls) > 1:
                for call, result in zip(calls, await self._run_concurrently(run, calls), strict=True):
                    await run.scrub_ahead(result)
                    run.emit(result)
                    await run.hooks.after_call(call, result)
            else:
                for call in calls:
                    await turns.pause()  # many calls may be refused without a wait
                    result = await self._result_of(run, call)
                    await run.scrub_ahead(result)
                    run.emit(result)
                    faults.reached("result.emitted")
                    await run.hooks.after_call(call, result)

    async def _run_concurrently(self, run: Run, calls: list[OpenCall]) -> list[ToolResult]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._result_of(run, call)) for call in calls]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None  # a run ends for one reason, however many calls it affects
        return [task.result() for task in tasks]

    def _group(self, call: OpenCall) -> str:
        """What a call runs together with: its tier, or nothing."""
        name = call.item.name
        return self._registry.tier_of(name) if self._registry.is_concurrent(name) else ""

    def _find_tool(self, call: OpenCall) -> Tool[Struct] | None:
        try:
            return self._registry.get(call.item.name)
        except ToolError:
            return None

    async def _result_of(self, run: Run, call: OpenCall) -> ToolResult:
        started: float | None = None
        outcome: ToolOutcome = "rejected"
        try:
            if call.stage == "claimed":
                outcome = "unknown"
                output = await self.recover(run, call)
            else:
                prepared = await self._permit(run, call, await self._announce(run, call))
                outcome = "failed"
                started = run.seconds()  # the time a person took to decide does not count
                output = await self.execute(run, call, prepared)
        except ToolError as error:
            failure = ToolFailure(_error_type(error.code), error.retryable, str(error), error.detail)
            if outcome == "rejected" and call.stage == "denied":
                outcome = "denied"
            return self._result(run, call, started, f"Tool execution failed: {error}", outcome, failure=failure)
        output = await with_stored_images(run, output)
        full, failure, stored = await run.scrub_long(output.text), None, None
        if output.is_error:
            failure = ToolFailure(_error_type(output.error_type), False, full[:200])
        text = shorten_middle(full)
        if text is not full:
            stored = await run.store(full)
            run.place.outputs.add(stored)
            text = shorten_middle(full, output=stored)
        result = self._result(
            run, call, started, text, "returned", failure=failure, stored=stored, exit_code=output.exit_code
        )
        return replace(result, attachments=output.attachments) if output.attachments else result

    async def recover(self, run: Run, call: OpenCall) -> Output:
        """The output of a call that the previous process started, if the target still has it."""
        from buddy.backends.native.reattach import reattach

        nonce, tool = nonce_of(run.session_id, call.item.call_id), self._find_tool(call)
        if has(tool, Resumable):
            return await self._resume(run, call, tool)
        if (output := await reattach(run, call.item.call_id, nonce)) is not None:
            return output
        await run.place.target.kill_orphans(nonce)
        raise unknown_outcome(run, call)

    async def _resume(self, run: Run, call: OpenCall, tool: Resumable) -> Output:
        prepared = await self.prepare(run, call)
        if not await tool.is_resumable(_call_of(run, call, prepared)):
            raise unknown_outcome(run, call)
        run.emit(Recovery(action="reattached", call_id=call.item.call_id))
        return await self.execute(run, call, prepared)

    async def _announce(self, run: Run, call: OpenCall) -> PreparedCall:
        """Record the call once, then check it: a call that cannot run is recorded, too."""
        prepared: PreparedCall | None = None
        problem: ToolError | None = None
        try:
            prepared = await self.prepare(run, call)
        except ToolError as error:
            problem = error
        if call.stage == "requested":
            Budget.of(run).reserve_tool_call()
            body = ToolCall(
                source=prepared.tool.source if prepared else "unknown",
                tool_name=call.item.name,
                args=await take_turns(_shown_arguments(call.item.arguments)),
                call_id=call.item.call_id,
                target=run.place.target.name,
            )
            await run.scrub_ahead(body)
            run.emit(body)
        if prepared is None:
            raise problem or ToolError("the call could not be prepared")
        return prepared

    async def prepare(self, run: Run, call: OpenCall) -> PreparedCall:
        tool = self._registry.get(call.item.name)
        arguments = run.arguments_of(call)
        if problem := find_refusal(arguments):
            raise ToolError(problem)
        args = await take_turns(self._registry.parse_long(tool, arguments))
        intent = await tool.intent(args, run.place)
        tier = self._registry.tier_of(tool.name)
        digest = partial(digest_of, tool.name, arguments, intent, run.place)
        is_needed = tier != "read-only" or len(arguments) > PART
        bound = await take_turns(digest()) if is_needed else lambda: at_once(digest())
        return PreparedCall(tool, args, Question(call.item.call_id, tier, intent, bound, tool.name))

    async def _permit(self, run: Run, call: OpenCall, prepared: PreparedCall) -> PreparedCall:
        """Have the call decided and claimed; what changed since it was decided is decided again."""
        check_disk_space(prepared.question.tier, self._has_room)
        ruling, prepared = await ask_until_current(run, prepared, partial(self.prepare, run, call))
        if not ruling.approved:
            why = f": {ruling.comment}" if ruling.comment else ""
            raise ToolError(f"denied by {ruling.by}{why}. Do not try the same again.", code="AUTH_FAILURE")
        if ruling.waited:
            check_disk_space(prepared.question.tier, self._has_room)  # the disk may have filled meanwhile
        await claim(run, prepared.question)
        return prepared

    async def execute(self, run: Run, call: OpenCall, prepared: PreparedCall) -> Output:
        decoders: dict[str, codecs.IncrementalDecoder] = {}

        async def on_output(stream: StreamName, data: bytes) -> None:
            if stream not in decoders:
                decoders[stream] = codecs.getincrementaldecoder("utf-8")("replace")
            text = decoders[stream].decode(data)
            await run.stream_output(call.item.call_id, stream, text)

        under_way = _call_of(run, call, prepared, on_output)
        faults.reached("tool.run.before")
        deadline = asyncio.timeout(prepared.tool.timeout)
        try:
            async with deadline:
                output = await prepared.tool.run(prepared.args, under_way)
        except TimeoutError:
            if not deadline.expired():
                raise
            limit = f"{prepared.tool.timeout:g} s"
            message = f"{prepared.tool.name} took longer than {limit} and was stopped"
            raise ToolError(message, code="EXEC_TIMEOUT") from None
        faults.reached("tool.run.after")
        return output

    def _result(
        self,
        run: Run,
        call: OpenCall,
        started: float | None,
        text: str,
        outcome: ToolOutcome,
        *,
        failure: ToolFailure | None,
        stored: str | None = None,
        exit_code: int | None = None,
    ) -> ToolResult:
        tool = self._find_tool(call)
        return ToolResult(
            source=tool.source if tool else "unknown",
            tool_name=call.item.name,
            duration_ms=0 if started is None else max(0, round((run.seconds() - started) * 1000)),
            is_error=failure is not None,
            text=text,
            structured_error=failure,
            call_id=call.item.call_id,
            target=run.place.target.name,
            output=stored,
            exit_code=exit_code,
            outcome=outcome,
        )


async def _no_output(_stream: StreamName, _data: bytes) -> None:
    pass


def _call_of(run: Run, call: OpenCall, prepared: PreparedCall, on_output: OnOutput = _no_output) -> Call:
    """The call as its tool sees it."""
    call_id, intent = call.item.call_id, prepared.question.intent
    path = (intent.path or "") if isinstance(intent, Other) else ""
    outside = path if isinstance(intent, Other) and intent.is_outside else ""
    nonce, ask = nonce_of(run.session_id, call_id), partial(run.ask_person, call_id)
    return Call(call_id, run.place, nonce, on_output, call.by, outside, run.session_id, ask, path)


def _shown_arguments(arguments: str) -> Steps[dict[str, Any]]:
    """The arguments as an object, for people; anything else is shown as it is."""
    try:
        shown = yield from decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return {"raw": arguments}
    return cast("dict[str, Any]", shown) if isinstance(shown, dict) else {"raw": arguments}


def _error_type(code: str) -> ToolErrorType:
    for known in get_args(ToolErrorType):
        if known == code:
            return known
    return "UNKNOWN"
