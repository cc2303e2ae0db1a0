"""Tools, rules and acceptance checks that answer what they answered.

Invariants: nothing is run or written; each answer waits for its place in the recording.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import NoReturn

from msgspec import Struct

from buddy.approvals.permissions import ALWAYS, Permissions
from buddy.approvals.questions import Opinion, Question
from buddy.backends.contract import Run
from buddy.backends.interrupted import unknown_outcome
from buddy.backends.native.dispatch import Dispatch, PreparedCall
from buddy.backends.runstate import OpenCall
from buddy.errors import ToolError
from buddy.protocol.actors import SESSION_GRANT, RuleActor, RuntimeActor, parse_actor
from buddy.protocol.codes import Source, Tier
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalReceived,
    ApprovalRequired,
    Error,
    EventBody,
    HookFinished,
    Progress,
    Recovery,
    RunCancelling,
    ToolCall,
    ToolResult,
    WarningRaised,
)
from buddy.protocol.intents import Intent, Other, recorded_intent
from buddy.replay.recording import ReplayCursor, wait_for_ever
from buddy.sessions.fork import Entry
from buddy.targets.contract import Finished, OnOutput
from buddy.targets.local import Local
from buddy.tools.contract import Call, Output, Place
from buddy.tools.descriptions import builtin_descriptions
from buddy.tools.registry import Definition, Registry
from buddy.tools.source import TOOL_WARNING, ToolScope


class NoArgs(Struct, frozen=True):
    """What a call is about is recorded with it."""


class RecordedTool:
    """Satisfies `Tool`; its calls are prepared and executed by `RecordedDispatch`."""

    description = "recorded"
    args: type[Struct] = NoArgs
    timeout: float | None = None

    def __init__(self, name: str, tier: Tier, source: Source) -> None:
        self.name = name
        self.tier: Tier = tier
        self.source: Source = source
        described = builtin_descriptions().get(name)
        self.concurrent = described is not None and described.concurrent

    async def intent(self, args: Struct, place: Place) -> NoReturn:
        raise NotImplementedError(f"a replay prepares no call of {self.name} ({args}, {place.root})")

    async def run(self, args: Struct, call: Call) -> NoReturn:
        raise NotImplementedError(f"a replay does not run {self.name} ({args}, {call.call_id})")


class RecordedTools(Registry):
    """The tools that a recording names; `specs` are those that its prompts had, whose length depends on them."""

    def __init__(self, entries: Sequence[Entry], specs: tuple[Definition, ...]) -> None:
        tiers: dict[str, Tier] = {}
        sources: dict[str, Source] = {}
        for _, body in entries:
            if isinstance(body, Progress):
                tiers |= body.tiers or {}
            elif isinstance(body, ToolCall | ToolResult) and body.source != "unknown":
                sources[body.tool_name] = body.source
        super().__init__(RecordedTool(name, tier, sources.get(name, "unknown")) for name, tier in tiers.items())
        self._recorded_specs = specs

    def specs(self) -> tuple[Definition, ...]:
        return self._recorded_specs


class RecordedSource:
    """The same tools at every turn, and the warnings about them that were recorded at this one."""

    def __init__(self, tools: RecordedTools, cursor: ReplayCursor) -> None:
        self._tools = tools
        self._cursor = cursor

    async def tools(self, scope: ToolScope) -> Registry:
        for _, body in takewhile(_is_tool_warning, list(self._cursor.after(self._cursor.reached))):
            if isinstance(body, WarningRaised):
                scope.warn(body.code, body.message, body.detail)
        return self._tools


def _is_tool_warning(entry: tuple[Event, EventBody]) -> bool:
    return isinstance(entry[1], WarningRaised) and entry[1].code.startswith(TOOL_WARNING)


class RecordedDispatch(Dispatch):
    """Each call is prepared as it was, and gives what it gave."""

    def __init__(
        self, cursor: ReplayCursor, blobs: Mapping[str, bytes], registry: Registry, has_room: Callable[[], bool]
    ) -> None:
        super().__init__(registry, has_room)
        self._cursor = cursor
        self._blobs = blobs
        self._recorded = registry

    async def prepare(self, run: Run, call: OpenCall) -> PreparedCall:
        del run
        call_id, name = call.item.call_id, call.item.name
        await self._cursor.wait_prepared(call_id)
        _, step = self._cursor.next_step(call_id)
        if isinstance(step, ToolResult) and step.outcome == "rejected" and not self._is_changed_later(call_id):
            raise _error_of(step)
        digest = "" if step is None or isinstance(step, ToolResult) else step.digest
        tool, tier = self._recorded.get(name), self._recorded.tier_of(name)
        return PreparedCall(
            tool, NoArgs(), Question(call_id, tier, intent_of(name, step), digest or call.digest or "", name)
        )

    def _is_changed_later(self, call_id: str) -> bool:
        """Whether a hook is still to change the input: before that, it could be prepared."""
        ahead = (body for _, body in self._cursor.rest_of_run() if isinstance(body, HookFinished))
        return any(body.call_id == call_id and body.input is not None for body in ahead)

    async def execute(self, run: Run, call: OpenCall, prepared: PreparedCall) -> Output:
        del run, prepared
        return await self._answer(call.item.call_id)

    async def recover(self, run: Run, call: OpenCall) -> Output:
        """A command that outlived its process gave a result; of any other call, the outcome is unknown."""
        call_id = call.item.call_id
        self._cursor.begin_stream(call_id)
        for event, body in self._cursor.rest_of_run():
            if isinstance(body, Recovery) and body.call_id == call_id:
                await self._cursor.wait_before(event.seq)
                if body.action != "reattached":
                    raise unknown_outcome(run, call)
                run.emit(body)
                return await self._answer(call_id)
        return await wait_for_ever()

    async def _answer(self, call_id: str) -> Output:
        self._cursor.begin_stream(call_id)
        for event, body in self._cursor.rest_of_run():
            match body:
                case ToolResult() if body.call_id == call_id and body.outcome != "closed":
                    await self._cursor.wait_before(self._known_before(event.seq))
                    return self._output_of(body)
                case Error() if body.code == "INTERNAL_ERROR":
                    await self._cursor.wait_before(event.seq)
                    raise RuntimeError(body.message)
                case _:
                    pass
        return await wait_for_ever()

    def _known_before(self, seq: int) -> int:
        """Adjacent results belong to calls that ran together: each of them was known before the first."""
        while (entry := self._cursor.at(seq - 1)) is not None and isinstance(entry[1], ToolResult):
            seq -= 1
        return seq

    def _output_of(self, result: ToolResult) -> Output:
        if result.outcome == "failed":
            raise _error_of(result)
        stored = self._blobs.get(result.output or "")
        text = stored.decode(errors="replace") if stored is not None else result.text
        kind = result.structured_error.type if result.structured_error else "UNKNOWN"
        return Output(text, result.exit_code, result.is_error, kind, attachments=result.attachments)


def _error_of(result: ToolResult) -> ToolError:
    failure = result.structured_error
    if failure is None:
        return ToolError(result.text)
    return ToolError(failure.message, code=failure.type, retryable=failure.retryable, detail=failure.detail)


def intent_of(name: str, step: object) -> Intent:
    """What was shown, without what the rules added to it; of a call that nobody was asked about, its name."""
    if isinstance(step, ApprovalRequired):
        details = {key: value for key, value in step.details.items() if key not in (ALWAYS, "why")}
        return recorded_intent(step.kind, step.title, step.summary, details)
    # Where a policy that allows everything did not decide, the call was to open the network; where one approved it,
    # the call may have been one that stays in the sandbox.
    by = parse_actor(step.by) if isinstance(step, ApprovalReceived) else None
    contained = isinstance(step, ApprovalReceived) and by == RuntimeActor.POLICY and step.decision == "approve"
    return Other(title=name, summary=name, opens_sandbox=by == SESSION_GRANT, is_contained=contained)


class RecordedPermissions(Permissions):
    """Rules that decide as they did."""

    def __init__(self, root: str, cursor: ReplayCursor) -> None:
        super().__init__(root)
        self._cursor = cursor

    def judge(self, question: Question) -> Opinion:
        _, step = self._cursor.next_step(question.call_id)
        if isinstance(step, ApprovalRequired):
            return Opinion("ask", str(step.details.get("why", "")), must_ask=True)
        actor = parse_actor(step.by) if isinstance(step, ApprovalReceived) else None
        if actor == RuntimeActor.HOOK and self._is_left_to_hooks(question.call_id):
            return Opinion("ask", "", must_ask=True)
        if not isinstance(step, ApprovalReceived) or not isinstance(actor, RuleActor | RuntimeActor):
            # What a person decided later, or nobody, was left to them by every policy.
            return Opinion(None, "", must_ask=True)
        if isinstance(actor, RuleActor) and actor != SESSION_GRANT:
            return Opinion("allow" if step.decision == "approve" else "deny", step.comment or "", actor.id)
        return Opinion("ask" if question.tier == "read-only" else None, "")

    def _is_left_to_hooks(self, call_id: str) -> bool:
        """Whether hooks for permission requests come before the decision: nothing else had decided the call."""
        for _, body in self._cursor.rest_of_run():
            if isinstance(body, HookFinished) and body.event == "PermissionRequest" and body.call_id == call_id:
                return True
            if isinstance(body, ApprovalRequired | ApprovalReceived) and body.call_id == call_id:
                return False
        return False

    def offer(self, question: Question) -> dict[str, object]:
        _, step = self._cursor.next_step(question.call_id)
        shown = step.details.get(ALWAYS) if isinstance(step, ApprovalRequired) else None
        return {} if shown is None else {ALWAYS: shown}

    def remember(self, approval: object) -> None:
        """The rule was stored then."""

    def grant(self, approval: object, until: object) -> None:
        """What it allowed is recorded like what any other rule allowed."""


class RecordedTarget(Local):
    """Acceptance checks end as they ended. Files are read from this machine, because prompts name some of them."""

    def __init__(self, name: str, cursor: ReplayCursor) -> None:
        super().__init__()
        self.name = name
        self.without_cgroups = self
        self._cursor = cursor

    async def run(
        self,
        command: str,
        *,
        cwd: str,
        nonce: str,
        on_output: OnOutput,
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Finished:
        del command, cwd, nonce, timeout, env
        for event, body in self._cursor.rest_of_run():
            if isinstance(body, AcceptanceResult):
                await self._cursor.wait_before(event.seq)
                await on_output("stdout", body.output.encode())
                return Finished(body.exit_code)
            if isinstance(body, RunCancelling):
                break
        return await wait_for_ever()

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        del content, root
        raise ToolError(f"a replay does not write {path}")

    async def kill_orphans(self, nonce: str) -> int:
        del nonce
        return 0
