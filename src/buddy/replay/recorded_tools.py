"""Tools, a target and rules as they were recorded: they answer again what they answered then.

What always holds: nothing is done to the world (files are only read, for the prompt's sake); each answer waits for its
place in the cursor, so that what happens again happens in recorded order.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, json

from buddy.approvals.permissions import ALWAYS, Permissions
from buddy.approvals.questions import Opinion, Question
from buddy.errors import ToolError
from buddy.protocol.actors import SESSION_GRANT, Rule, parse_actor
from buddy.protocol.codes import Source, Tier
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    Error,
    EventBody,
    RunCancelling,
    RunComplete,
    ToolCall,
    ToolClaimed,
    ToolOutput,
    ToolResult,
)
from buddy.protocol.intents import Intent, Other, recorded_intent
from buddy.protocol.shapes import ToolCallItem
from buddy.replay.replay_cursor import ReplayCursor, wait_for_ever
from buddy.sessions.ending import is_closing
from buddy.sessions.fork import Entry
from buddy.targets.contract import Entry as Listed
from buddy.targets.contract import FileStat, Finished, OnOutput
from buddy.targets.local import Local
from buddy.tools.contract import Call, Output, Place
from buddy.tools.descriptions import builtin_tier
from buddy.tools.registry import Definition, Registry

FAILED = "Tool execution failed: "


class RecordedCall(Struct):
    """All that is known of one call of the model."""

    item: ToolCallItem
    called: ToolCall | None = None
    claimed: ToolClaimed | None = None
    asked: ApprovalRequired | None = None
    ruled: ApprovalReceived | None = None
    result: ToolResult | None = None
    ready: int = 0
    outputs: list[tuple[int, ToolOutput]] = []
    bug: tuple[int, str] | None = None

    @property
    def digest(self) -> str:
        known = (self.claimed, self.ruled, self.asked)
        return next((found.digest for found in known if found is not None and found.digest), "")

    @property
    def is_closed(self) -> bool:
        """Whether its result is only the end of its run."""
        return self.result is None or is_closing(self.result)

    @property
    def is_refused(self) -> bool:
        """Whether it could not even be prepared: its tool or its arguments were wrong."""
        failed = self.result is not None and self.result.is_error and self.result.text.startswith(FAILED)
        is_decided = self.asked is not None or self.ruled is not None
        return failed and not is_decided and self.called is not None and self.called.source == "unknown"


def calls_in(entries: Sequence[Entry]) -> dict[str, RecordedCall]:
    """Every call of a recording by its id."""
    calls: dict[str, RecordedCall] = {}
    block = 0
    for event, body in entries:
        # Results that come together belong to calls that ran together: each of them was ready before the first.
        block = (block or event.seq) if isinstance(body, ToolResult) else 0
        if isinstance(body, AssistantMessage):
            calls.update({item.call_id: RecordedCall(item) for item in body.tool_calls})
        if isinstance(body, ToolCall) and body.source == "delegate" and body.call_id is not None:
            item = ToolCallItem(body.call_id, body.tool_name, json.encode(body.args).decode())
            calls.setdefault(body.call_id, RecordedCall(item))
        if isinstance(body, Error) and body.code == "INTERNAL_ERROR":
            for call in calls.values():
                if call.called is not None and call.result is None:
                    call.bug = event.seq, body.message
        call_id = getattr(body, "call_id", None)
        if isinstance(call_id, str) and call_id in calls:
            _note(calls[call_id], event.seq, body, block)
    return calls


def _note(call: RecordedCall, seq: int, body: EventBody | None, block: int) -> None:
    match body:
        case ToolCall():
            call.called = body
        case ToolClaimed():
            call.claimed = body
        case ApprovalRequired():
            call.asked = body
        case ApprovalReceived():
            call.ruled = body
        case ToolOutput():
            call.outputs.append((seq, body))
        case ToolResult():
            call.result, call.ready = body, block
        case _:
            pass


def had_room(cursor: ReplayCursor) -> bool:
    """Whether there was room on the disk for what comes next."""
    ending, claimed = cursor.next(RunComplete), cursor.next(ToolClaimed)
    return not (ending and ending.reason == "storage_full" and claimed is None)


class RecordedArgs(Struct, frozen=True):
    arguments: str


class RecordedTool:
    description = "recorded"
    args: type[Struct] = RecordedArgs
    timeout: float | None = None

    def __init__(self, name: str, world: "RecordedTools") -> None:
        self.name = name
        self.tier: Tier = world.tier_of(name)
        self.source: Source = world.source_of(name)
        self._world = world

    async def intent(self, args: RecordedArgs, place: Place) -> Intent:
        del place
        call = self._world.find(self.name, args.arguments)
        asked = self._world.question_like(call)
        if asked is None:
            return Other(title=self.name, summary=self.name, shown={"digest": call.digest if call else ""})
        details = {name: value for name, value in asked.details.items() if name not in (ALWAYS, "why")}
        return recorded_intent(asked.kind, asked.title, asked.summary, details)

    async def run(self, args: RecordedArgs, call: Call) -> Output:
        del args
        return await self._world.answer(call)


class RecordedTools(Registry):
    """The tools of a recording; `whole` has the texts that were kept beside the log."""

    def __init__(
        self,
        cursor: ReplayCursor,
        calls: Mapping[str, RecordedCall],
        whole: Mapping[str, bytes],
        specs: tuple[Definition, ...] = (),
    ) -> None:
        self._given_specs = specs
        self._cursor = cursor
        self._calls = calls
        self._whole = whole
        self._refused = {call.item.name: call for call in calls.values() if self._is_unknown(call.item.name)}
        names = {call.item.name for call in calls.values()} - set(self._refused)
        super().__init__(RecordedTool(name, self) for name in sorted(names))

    def get(self, name: str) -> Any:
        refused = self._refused.get(name)
        if refused is not None:
            raise _tool_error(refused.result)
        return super().get(name)

    def specs(self) -> tuple[Definition, ...]:
        """Those of the tools that the session had: the length of a prompt depends on them."""
        return self._given_specs

    def parse(self, tool: Any, arguments_json: str) -> Struct:
        call = self.find(tool.name, arguments_json)
        if call is not None and call.is_refused:
            raise _tool_error(call.result)
        return RecordedArgs(arguments_json)

    def find(self, name: str, arguments: str) -> RecordedCall | None:
        """The call that is under way with these words: the first that has no result yet."""
        for call in self._calls.values():
            is_open = call.result is None or call.ready > self._cursor.reached
            if is_open and (call.item.name, call.item.arguments) == (name, arguments):
                return call
        return None

    def question_like(self, call: RecordedCall | None) -> ApprovalRequired | None:
        """What was asked of this call, or of one that would have done exactly the same."""
        if call is None or call.asked is not None:
            return call.asked if call else None
        same = (other.asked for other in self._calls.values() if other.digest == call.digest and call.digest)
        return next((asked for asked in same if asked is not None), None)

    async def answer(self, under_way: Call) -> Output:
        call = self._calls[under_way.call_id]
        shown = 0
        try:
            for seq, output in call.outputs:
                await self._cursor.wait_before(seq)
                shown += 1
                await under_way.on_output(output.stream, output.text.encode())
            if call.bug is not None:
                await self._cursor.wait_before(call.bug[0])
                raise RuntimeError(call.bug[1])
            if call.is_closed:
                await wait_for_ever()
            await self._cursor.wait_before(call.ready)
        except asyncio.CancelledError:
            for _, output in call.outputs[shown:]:
                await under_way.on_output(output.stream, output.text.encode())  # what only came out at the end
            raise
        return self._output(call.result)

    def tier_of(self, name: str) -> Tier:
        calls = [call for call in self._calls.values() if call.item.name == name]
        for call in calls:
            if call.claimed is not None:
                return call.claimed.tier
        if not _only_reads(name) and any(call.asked is not None or call.ruled is not None for call in calls):
            return "privileged"
        done = any(call.result is not None and not call.is_refused and not call.is_closed for call in calls)
        return "read-only" if done or _only_reads(name) else "privileged"

    def source_of(self, name: str) -> Source:
        calls = [call for call in self._calls.values() if call.item.name == name]
        for call in calls:
            for said in (call.called, call.result):
                if said is not None and said.source != "unknown":
                    return said.source
        return "unknown"

    def _is_unknown(self, name: str) -> bool:
        ended = [call for call in self._calls.values() if call.item.name == name and call.result is not None]
        is_found = _only_reads(name) or self.source_of(name) != "unknown"
        return not is_found and bool(ended) and all(call.is_refused for call in ended)

    def _output(self, result: ToolResult | None) -> Output:
        if result is None:
            raise ToolError("nothing was recorded")
        if result.is_error and result.text.startswith(FAILED):
            raise _tool_error(result)
        kept = self._whole.get(result.output or "")
        text = kept.decode(errors="replace") if kept is not None else result.text
        kind = result.structured_error.type if result.structured_error else "UNKNOWN"
        return Output(text, result.exit_code, result.is_error, kind)


def _only_reads(name: str) -> bool:
    """Whether it is a built-in tool that only reads, which says so without having been claimed."""
    return builtin_tier(name) == "read-only"


def _tool_error(result: ToolResult | None) -> ToolError:
    failure = result.structured_error if result else None
    if failure is None:
        return ToolError("nothing was recorded")
    return ToolError(failure.message, code=failure.type, retryable=failure.retryable, detail=failure.detail)


class RecordedPermissions(Permissions):
    """Rules that say again what they said."""

    def __init__(self, root: str, calls: Mapping[str, RecordedCall]) -> None:
        super().__init__(root)
        self._calls = calls

    def judge(self, question: Question) -> Opinion:
        call = self._calls.get(question.call_id)
        ruled = call.ruled if call else None
        actor = parse_actor(ruled.by) if ruled is not None else None
        if ruled is not None and isinstance(actor, Rule) and actor != SESSION_GRANT:
            decision = "allow" if ruled.decision == "approve" else "deny"
            return Opinion(decision, ruled.comment or "", actor.id)
        asked = call.asked if call else None
        return Opinion("ask", str(asked.details.get("why", ""))) if asked else Opinion(None, "")

    def offer(self, question: Question) -> dict[str, object]:
        call = self._calls.get(question.call_id)
        shown = call.asked.details.get(ALWAYS) if call and call.asked else None
        return {ALWAYS: shown} if shown is not None else {}

    def remember(self, approval: object) -> None:
        """It was kept then."""

    def grant(self, approval: object, expires_at: int) -> None:
        """What it allowed then was recorded, as what any rule allowed."""


class RecordedTarget:
    """A place where nothing is done: acceptance checks end as they ended."""

    def __init__(self, name: str, cursor: ReplayCursor) -> None:
        self.name = name
        self._cursor = cursor
        self._local = Local()

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
        for event, body in self._cursor.after(self._cursor.reached):
            if isinstance(body, AcceptanceResult):
                await self._cursor.wait_before(event.seq)
                await on_output("stdout", _unbounded(body.output).encode())
                return Finished(body.exit_code)
            if isinstance(body, RunCancelling | RunComplete):
                break
        await wait_for_ever()
        return Finished(-1)

    async def read_file(self, path: str, *, root: str, limit: int) -> bytes:
        return await self._local.read_file(path, root=root, limit=limit)

    async def write_file(self, path: str, content: bytes, *, root: str) -> None:
        del content, root
        raise ToolError(f"{path} is not written in a replay")

    async def stat(self, path: str, *, root: str) -> FileStat | None:
        return await self._local.stat(path, root=root)

    async def locate(self, path: str, *, root: str) -> str:
        return await self._local.locate(path, root=root)

    async def list_dir(self, path: str, *, root: str) -> list[Listed]:
        return await self._local.list_dir(path, root=root)

    async def kill_orphans(self, nonce: str) -> int:
        del nonce
        return 0


_LEFT_OUT = re.compile(r"\n\[… (\d+) of \d+ bytes left out[^\n]*\]\n")


def _unbounded(text: str) -> str:
    """A text that is cut to this one: as long as the one that was, with anything where it was cut."""
    found = _LEFT_OUT.search(text)
    if found is None:
        return text
    return f"{text[: found.start()]}{'.' * int(found[1])}{text[found.end() :]}"
