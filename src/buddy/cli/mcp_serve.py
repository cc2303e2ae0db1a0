"""`buddy mcp serve`: Buddy as an MCP server on stdin and stdout, with the tools `start`, `reply` and `status`.

Invariants: a call ends with its run's outcome; an approval is decided by the user of the calling client if it can
ask (elicitation), and otherwise denied as in a headless run; what cannot be shown in full is denied, too; a client that
goes away leaves the run to the daemon.
"""

import asyncio
import json
import os
import time
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    CallToolResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from buddy.cli.connect import async_client
from buddy.cli.daemon import launch
from buddy.cli.endpoint import endpoint_for_start
from buddy.cli.options import Options
from buddy.cli.session_options import apply_configured, is_default_level, level_of, policy_of, session_payload
from buddy.client.client import Client
from buddy.client.steps import find_session
from buddy.client.view import RunView, View
from buddy.errors import BuddyError, ProtocolError
from buddy.protocol.basics import NO_EXPIRY
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired
from buddy.protocol.ids import Ulids
from buddy.protocol.question_requests import AnswerQuestion
from buddy.protocol.requests import (
    AcceptedReply,
    GetSnapshot,
    GetSnapshotReply,
    ListSessions,
    ListSessionsReply,
    ReadEvents,
    ReadEventsReply,
    SendUserMessage,
    StartSession,
    SubmitApproval,
)
from buddy.protocol.shapes import RunOptions
from buddy.terminal.approval_screen import approval_text
from buddy.version import VERSION

COLUMNS = 100
MAX_APPROVAL = 16 * 1024
UNSHOWN = "it is too long to be shown in full by an MCP client, so nobody was asked; do it in smaller steps"
SHOWN_SESSIONS = 20
DECISION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "decision": {"type": "string", "enum": ["approve", "deny"], "title": "Decision"},
        "comment": {"type": "string", "title": "Comment for the agent (optional)"},
    },
    "required": ["decision"],
}
INSTRUCTIONS = """Runs an agent in a folder. `start` begins a session and returns its answer with a sessionId; `reply` \
sends the next message to it; `status` shows sessions that run or wait."""

Reply = CallToolResult | InputRequiredResult


class Followed(msgspec.Struct, frozen=True):
    """How far a run, and the questions of its sub-agents, have been followed."""

    session_id: str
    run_id: str
    seq: int = 0
    children: dict[str, int] = {}

    def after(self, event: Event) -> "Followed":
        if event.session_id == self.session_id:
            return replace(self, seq=event.seq)
        return replace(self, children={**self.children, event.session_id: event.seq})

    def has_seen(self, event: Event) -> bool:
        """Whether it was dealt with before: those of sub-agents come again with each connection."""
        return event.session_id != self.session_id and event.seq <= self.children.get(event.session_id, 0)


class Waiting(msgspec.Struct, frozen=True):
    """What a call waits for: carried by the client from one round of the call to the next.

    `session_id` and `run_id` name who asks: the session itself, or a sub-agent.
    """

    followed: Followed
    session_id: str
    run_id: str
    kind: Literal["approval", "question"]
    id: str


def serve(options: Options) -> int:
    server = MCPServer("buddy", title="Buddy", version=VERSION, instructions=INSTRUCTIONS, log_level="ERROR")
    tools = AgentTools(options)
    for tool in (tools.start, tools.reply, tools.status):
        server.add_tool(tool, structured_output=False)
    server.run("stdio")
    return 0


class AgentTools:
    def __init__(self, options: Options) -> None:
        self._options = options

    async def start(self, prompt: str, ctx: Context, cwd: str = "", profile: str = "", model: str = "") -> Any:
        """Start a session of an agent in a folder, send it a first message, and wait for its answer.

        `cwd` is the folder to work in (default: the folder the server was started in).
        """
        options = self._with(cwd, profile, model)
        if not options.config:
            await asyncio.to_thread(launch, options)
        try:
            async with async_client(options, "mcp") as client:
                waiting = _waiting(ctx)
                if waiting is None:
                    session_id = await _start(client, options, can_ask=_can_ask(ctx))
                    return await _send(client, ctx, session_id, prompt)
                return await _go_on(client, ctx, waiting)
        except BuddyError as error:
            raise ToolError(str(error)) from error

    async def reply(self, session_id: str, prompt: str, ctx: Context) -> Any:
        """Send the next message to a session that `start` began, and wait for the answer."""
        try:
            async with async_client(self._options, "mcp") as client:
                waiting = _waiting(ctx)
                if waiting is not None:
                    return await _go_on(client, ctx, waiting)
                found = await client.perform(find_session(session_id, self._options.directory))
                await client.attach(found, (await _last_seq(client, found)))
                return await _send(client, ctx, found, prompt)
        except BuddyError as error:
            raise ToolError(str(error)) from error

    async def status(self, session_id: str = "") -> Any:
        """The state of a session, or without an id the latest sessions."""
        try:
            async with async_client(self._options, "mcp") as client:
                if session_id:
                    found = await client.perform(find_session(session_id, self._options.directory))
                    snapshot = await client.request(GetSnapshot(), GetSnapshotReply, found)
                    return _result(json.dumps({"sessionId": found, **msgspec.to_builtins(snapshot)}, default=str))
                rows = (await client.request(ListSessions(SHOWN_SESSIONS), ListSessionsReply)).sessions
                return _result(json.dumps({"sessions": msgspec.to_builtins(rows)}))
        except BuddyError as error:
            raise ToolError(str(error)) from error

    def _with(self, cwd: str, profile: str, model: str) -> Options:
        options = Options(**vars(self._options))
        options.directory = os.path.join(options.directory, os.path.expanduser(cwd)) if cwd else options.directory  # noqa: PTH118, PTH111 - text
        options.profile, options.model = profile or options.profile, model or options.model
        return options


async def _start(client: Client, options: Options, *, can_ask: bool) -> str:
    apply_configured(options)
    level = level_of(options)
    while True:
        policy = policy_of(options, level)
        if policy == "ask" and not can_ask:
            policy = "none"
        payload = session_payload(options, "headless", level, policy)
        payload["metadata"] = {"source": "mcp"}
        payload["options"]["attended"] = can_ask
        payload["options"]["endpoint"] = endpoint_for_start(client.runtime.key_variables if client.runtime else None)
        try:
            started = await client.start_session(msgspec.convert(payload, StartSession))
        except ProtocolError as error:
            if error.code != "SANDBOX_UNAVAILABLE" or level != "confined" or not is_default_level(options):
                raise
            level = "host"  # nobody asked for `confined`, and `host` has the stricter policy
            continue
        return started.session_id


async def _send(client: Client, ctx: Context, session_id: str, prompt: str) -> Reply:
    message = SendUserMessage(session_id, Ulids()("msg"), prompt, options=RunOptions())
    run_id = await client.send(message)
    return await _follow(client, ctx, Followed(session_id, run_id))


async def _go_on(client: Client, ctx: Context, waiting: Waiting) -> Reply:
    """The client's user has answered: pass it on, and follow the run again."""
    await client.attach(waiting.followed.session_id, waiting.followed.seq)
    responses = ctx.input_responses or {}
    answer = next((one for one in responses.values() if isinstance(one, ElicitResult)), ElicitResult(action="cancel"))
    await _pass_on(client, waiting, answer)
    return await _follow(client, ctx, waiting.followed)


async def _follow(client: Client, ctx: Context, followed: Followed) -> Reply:
    """Until the run is complete, or something has to be asked that the client asks between two rounds."""
    view, steps = View(), 0
    async for event in client.events():
        if followed.has_seen(event):
            continue
        followed = followed.after(event)
        if event.session_id == followed.session_id:
            view.apply(event.to_json())
            if text := _progress(event):
                steps += 1
                await ctx.report_progress(steps, None, text)
            run = view.runs.get(followed.run_id)
            if run is not None and run.complete is not None:
                return _answer(followed.session_id, run)
        asked = await _ask(client, ctx, event, followed)
        if asked is not None:
            return asked
    raise ToolError("the daemon closed the connection; ask for the status of the session later")


async def _ask(client: Client, ctx: Context, event: Event, followed: Followed) -> InputRequiredResult | None:
    request, waiting = _question_of(event, followed)
    if waiting is None or not _can_ask(ctx):
        return None
    if request is None:
        await _pass_on(client, waiting, ElicitResult(action="accept", content={"decision": "deny", "comment": UNSHOWN}))
        return None
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        state = msgspec.json.encode(waiting).decode()
        return InputRequiredResult(input_requests={waiting.kind: ElicitRequest(params=request)}, request_state=state)
    answer = await ctx.session.elicit_form(request.message, request.requested_schema, ctx.request_id)
    await _pass_on(client, waiting, answer)
    return None


def _question_of(event: Event, followed: Followed) -> tuple[ElicitRequestFormParams | None, Waiting | None]:
    """What to ask, and for what; an approval that cannot be shown in full has nothing to ask."""
    found, run_id = event.to_json(), event.run_id or followed.run_id
    if found["type"] == "approval_required":
        body = event.body()
        if not isinstance(body, ApprovalRequired):
            return None, None
        waiting = Waiting(followed, event.session_id, run_id, "approval", body.approval_id)
        lines = [line.text for line in approval_text(body, COLUMNS).lines if line.text]
        text = "\n".join([_labelled(body.title, body.agent), *lines])
        if body.blobs or len(text) > MAX_APPROVAL:
            return None, waiting
        left = round(body.expires_at / 1000 - time.time())
        text += f"\n(expires in {left} s)" if body.expires_at < NO_EXPIRY else ""
        return ElicitRequestFormParams(message=text, requested_schema=DECISION), waiting
    if found["type"] == "question_asked":
        asked = found["payload"]
        waiting = Waiting(followed, event.session_id, run_id, "question", asked["questionId"])
        message = _labelled(f"{asked['source']} asks: {asked['message']}", asked.get("agent"))
        if asked["mode"] == "url":
            message += f"\nOpen {asked.get('url')} in a browser, then accept."
        schema = asked.get("schema") or {"type": "object", "properties": {}}
        return ElicitRequestFormParams(message=message, requested_schema=schema), waiting
    return None, None


def _labelled(text: str, agent: str | None) -> str:
    return f"sub-agent {agent}: {text}" if agent else text


async def _pass_on(client: Client, waiting: Waiting, answer: ElicitResult) -> None:
    try:
        await _decide(client, waiting, answer)
    except ProtocolError as error:
        if error.code not in ("APPROVAL_NOT_FOUND", "APPROVAL_EXPIRED"):
            raise  # else it was decided elsewhere, and the run shows how


async def _decide(client: Client, waiting: Waiting, answer: ElicitResult) -> None:
    content: dict[str, Any] = dict(answer.content or {})
    if waiting.kind == "question":
        given = content if answer.action == "accept" else None
        request = AnswerQuestion(waiting.id, answer.action, given)
        await client.request(request, AcceptedReply, waiting.session_id)
        return
    is_yes = answer.action == "accept" and content.get("decision") == "approve"
    comment = str(content.get("comment") or "") or None
    verdict: Literal["approve", "deny"] = "approve" if is_yes else "deny"
    await client.approve(SubmitApproval(waiting.session_id, waiting.run_id, waiting.id, verdict, comment))


def _waiting(ctx: Context) -> Waiting | None:
    state = ctx.request_state
    return msgspec.json.decode(state, type=Waiting) if state else None


def _can_ask(ctx: Context) -> bool:
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None


def _progress(event: Event) -> str:
    found = event.to_json()
    match found["type"]:
        case "tool_call":
            return f"running {found['payload']['toolName']}"
        case "model_request":
            return "asking the model"
        case _:
            return ""


def _answer(session_id: str, run: RunView) -> CallToolResult:
    complete = run.complete
    outcome = complete["outcome"] if complete else "failed"
    summary = complete["summary"] if complete else ""
    text = run.finished_text if outcome == "success" else f"{outcome}: {summary}"
    facts = {"sessionId": session_id, "runId": run.run_id, "outcome": outcome, "text": run.finished_text}
    return _result(f"{text}\n\n(sessionId {session_id})", facts, is_error=outcome != "success")


def _result(text: str, facts: dict[str, Any] | None = None, *, is_error: bool = False) -> CallToolResult:
    content: Sequence[TextContent] = [TextContent(text=text)]
    return CallToolResult(content=list(content), structured_content=facts, is_error=is_error)


async def _last_seq(client: Client, session_id: str) -> int:
    return (await client.request(ReadEvents(0, 1), ReadEventsReply, session_id)).last_seq
