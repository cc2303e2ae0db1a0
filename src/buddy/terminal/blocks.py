"""Events as finished blocks of styled lines: messages, calls, decisions, outcomes.

Invariants: everything from outside is escaped; a block is bounded however long its event is; without colour, words and
signs alone carry the meaning.
"""

import contextlib
import os
from typing import Any

import msgspec

from buddy.client.view import RunView
from buddy.errors import ProtocolError, UserError
from buddy.protocol.actors import SESSION_GRANT, ClientActor, RuleActor, RuntimeActor, acts_on_session, parse_actor
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    ApprovalRequired,
    AssistantDone,
    AssistantMessage,
    AssistantRestart,
    AssistantToken,
    CancelScheduled,
    ChildFinished,
    ChildStarted,
    Error,
    EventBody,
    HookFinished,
    ModelRequest,
    ModelSwitched,
    Phase,
    Progress,
    QuestionAnswered,
    QuestionAsked,
    Recovery,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionArchived,
    SessionCompacted,
    SessionForked,
    SessionRenamed,
    SessionResumed,
    SessionSnapshot,
    SessionStarted,
    Status,
    ThinkingToken,
    ToolCall,
    ToolClaimed,
    ToolOutput,
    ToolResult,
    Usage,
    UserMessage,
    WarningRaised,
)
from buddy.protocol.file_events import FilesChanged, FilesRestored
from buddy.terminal.escape import escape, one_line
from buddy.terminal.file_blocks import files_block
from buddy.terminal.hook_lines import hook_line
from buddy.terminal.phrases import (
    PLAN_MODE,
    format_duration,
    format_tokens,
    plural,
    policy_text,
    redacted_text,
    watch_command,
)
from buddy.terminal.style import Style

RESULT_LINES = 6
CONTENT_LINES = 10
MESSAGE_LINES = 40
THOUGHT_LINES = 20
DIFF_LINES = 200
LINE = 400
# The name under which this terminal's own requests are recorded.
ME = "cli"
USER_CANCELLED = "user_cancelled"
_ENDED = {"success": "finished", "failed": "failed", "denied": "was denied", "cancelled": "was cancelled"}


def event_block(body: EventBody, style: Style, *, ts: int = 0) -> str | None:
    """One event as a block; None for events that are shown in another way. `ts` is its time in milliseconds."""
    match body:
        case UserMessage():
            return user_block(body, style)
        case ToolCall():
            return call_block(body, style)
        case ToolResult() | FilesChanged() | FilesRestored():
            return result_block(body, style) if isinstance(body, ToolResult) else files_block(body, style)
        case ApprovalReceived() | ApprovalExpired() | AcceptanceResult() | QuestionAnswered():
            return _verdict_block(body, style, ts)
        case WarningRaised() | Error() | HookFinished() | ChildStarted() | ChildFinished():
            return _notice(body, style)
        case ModelRequest() | RunStarted() | Recovery() | RunCancelling() | CancelScheduled():
            return _run_note(body, style, ts)
        case ApprovalPolicyChanged() | ModelSwitched() | SessionStarted():
            return _settings_note(body, style, ts)
        case SessionResumed() | SessionCompacted() | SessionForked() | SessionRenamed() | SessionArchived():
            return _session_note(body, style)
        case (
            AssistantToken()
            | ThinkingToken()
            | AssistantMessage()
            | AssistantRestart()
            | AssistantDone()
            | ToolOutput()
            | ToolClaimed()
            | ApprovalRequired()
            | RunComplete()
            | Usage()
            | Progress()
            | Phase()
            | Status()
            | SessionSnapshot()
            | QuestionAsked()
        ):
            return None


def _verdict_block(
    body: ApprovalReceived | ApprovalExpired | AcceptanceResult | QuestionAnswered, style: Style, ts: int
) -> str:
    match body:
        case QuestionAnswered():
            word = {"accept": "answered", "decline": "declined", "cancel": "closed"}[body.action]
            return style.dim(f"  Question {word} by {escape(body.by)}")
        case ApprovalReceived():
            return _decision_block(body, style, ts)
        case ApprovalExpired():
            return style.red("  ✗ Approval timed out; denied")
        case AcceptanceResult():
            result = "passed" if body.passed else f"failed (exit code {body.exit_code})"
            line = f"  {'✓' if body.passed else '✗'} check {escape(body.id)} {result}"
            return style.green(line) if body.passed else f"{style.red(line)}\n{preview(body.output, style)}"


def _notice(body: WarningRaised | Error | HookFinished | ChildStarted | ChildFinished, style: Style) -> str | None:
    return _child_note(body, style) if isinstance(body, ChildStarted | ChildFinished) else _problem_block(body, style)


def _problem_block(body: WarningRaised | Error | HookFinished, style: Style) -> str | None:
    if isinstance(body, HookFinished):
        said = hook_line(body.event, body.hook, body.verdict, body.reason, body.message)
        return style.yellow(f"  ! {said}") if said else None
    message = escape(body.message)
    line = style.red(f"✗ {message}") if isinstance(body, Error) else style.yellow(f"! {message}")
    # Only these codes have the next step as their detail.
    is_advice = body.code in ("PROVIDER_ERROR", "CONTEXT_UNKNOWN", "MCP_SERVER_FAILED", "MCP_NEEDS_LOGIN")
    return f"{line}\n  hint: {escape(body.detail)}" if body.detail and is_advice else line


def _run_note(
    body: ModelRequest | RunStarted | Recovery | RunCancelling | CancelScheduled, style: Style, ts: int
) -> str | None:
    match body:
        case CancelScheduled():
            # The moment it took to record it is not what the person asked for.
            left = max(0.0, (body.at - ts) / 1000)
            return style.dim(f"  Will cancel the run in {format_duration(round(left, -1) if left > 60 else left)}")
        case ModelRequest():
            wait, reason = (body.wait_ms or 0) / 1000, one_line(body.reason or "", 200)
            return style.dim(f"  ↻ Retrying in {wait:.1f} s: {reason}") if body.attempt > 1 else None
        case RunStarted():
            return style.dim("  ↻ Resuming the interrupted run") if body.recovered else None
        case Recovery():
            is_unknown = body.action == "unknown_outcome"
            call = escape(body.call_id or "a call")
            return style.yellow(f"  ? Unknown whether {call} took effect") if is_unknown else None
        case RunCancelling():
            return style.dim(f"  ■ Stopping{_stop_reason(body)}…")


def _child_note(body: ChildStarted | ChildFinished, style: Style) -> str:
    agent = f"sub-agent {escape(body.agent)}"
    if isinstance(body, ChildStarted):
        return style.dim(f"  ▸ {agent} started · {escape(body.session_id)}")
    spent = format_tokens(body.usage.input_tokens + body.usage.output_tokens)
    cost = "" if body.cost_usd is None else f", ${body.cost_usd:.4f}"
    line = f"  {'✓' if body.outcome == 'success' else '✗'} {agent} {_ENDED[body.outcome]} · {spent} tokens{cost}"
    return style.dim(line) if body.outcome == "success" else style.yellow(line)


def _settings_note(body: ApprovalPolicyChanged | ModelSwitched | SessionStarted, style: Style, ts: int) -> str | None:
    match body:
        case ApprovalPolicyChanged(revoked=str() as revoked):
            return style.dim(f"  grant {escape(revoked)} revoked{_changed_by(body.by)}")
        case ApprovalPolicyChanged():
            policy = PLAN_MODE if body.plan else policy_text(body.policy, body.expires_at, ts / 1000)
            colour = style.dim if body.plan or body.policy in ("ask", "auto", "none") else style.red
            return None if body.granted else colour(f"  approvals: {policy}{_changed_by(body.by)}")
        case ModelSwitched():
            profile, model = body.after.get("profile", ""), body.after.get("model", "")
            return style.dim(f"  model: {escape(profile)} · {escape(model)}")
        case SessionStarted():
            command = watch_command(body.watch or "", os.environ)
            watch = f"  Commands run in a shared pane. To watch: {escape(command)}"
            return style.dim(watch) if body.watch else None


def _session_note(
    body: SessionResumed | SessionCompacted | SessionForked | SessionRenamed | SessionArchived, style: Style
) -> str:
    match body:
        case SessionResumed():
            return style.dim("  ↻ Session resumed")
        case SessionCompacted():
            sizes = f"{format_tokens(body.before_tokens)} → {format_tokens(body.after_tokens)} tokens"
            return style.dim(f"  {'Compaction undone' if body.undo else 'Compacted'}: {sizes}")
        case SessionForked():
            return style.dim(f"  Forked from {escape(body.from_session_id)} at event {body.from_seq}")
        case SessionRenamed():
            return style.dim(f"  Title: {one_line(body.title, LINE)}{_changed_by(body.by)}")
        case SessionArchived():
            return style.dim(f"  {'Archived' if body.archived else 'No longer archived'}{_changed_by(body.by)}")


def _stop_reason(body: RunCancelling) -> str:
    """In brackets, unless it is the person at this terminal who stopped it."""
    by = "" if body.by == ME else f" by {_actor_name(body.by)}"
    reason = "" if body.reason == USER_CANCELLED else _reason_text(body.reason)
    return f" ({(reason + by).strip()})" if reason or by else ""


def _reason_text(reason: str) -> str:
    """A reason such as `provider_error`, in words."""
    return one_line(reason.replace("_", " "), 60)


def _changed_by(by: str) -> str:
    return "" if by == ME else f" (changed by {_actor_name(by)})"


def user_block(body: UserMessage, style: Style) -> str:
    """The user's message, marked; another client's name is shown with it."""
    lines = _first_lines(escape(body.text).split("\n"), MESSAGE_LINES)
    who = "" if body.by in (ME, "headless") else style.dim(f"[{one_line(body.by, 30)}] ")
    first, *rest = lines
    hint = f"  ! {redacted_text(body.redacted)}. /send-as-is sends it unredacted."
    note = [style.dim(f"  image: {one_line(one.name or one.media_type, 80)}") for one in body.attachments]
    note += [style.yellow(hint)] if body.redacted else []
    return "\n".join(
        [f"{style.green('>')} {who}{style.bold(first)}", *(f"  {style.bold(line)}" for line in rest), *note]
    )


def call_block(body: ToolCall, style: Style) -> str:
    head = f"{style.yellow('▶')} {style.yellow(one_line(body.tool_name, 60))}"
    match _readable(body.args):
        case {"command": str(command)}:
            first, *rest = _first_lines(escape(command).split("\n"), CONTENT_LINES)
            return "\n".join([f"{head} {style.dim('$')} {first}", *(f"    {line}" for line in rest)])
        case {"path": str(path), "content": str(content)}:
            added = _first_lines(escape(content).rstrip("\n").split("\n"), CONTENT_LINES)
            shown = "\n".join(style.green(f"    + {line[:LINE]}") for line in added)
            return f"{head} {one_line(path, 200)}\n{shown}"
        case {"path": str(path), **rest} if not rest:
            return f"{head} {one_line(path, 200)}"
        case _:
            return f"{head} {style.dim(one_line(msgspec.json.encode(body.args).decode(), 80))}"


def _readable(args: dict[str, Any]) -> dict[str, Any]:
    """The arguments; those of a call that was never reached are still the text that the model wrote."""
    match args:
        case {"raw": str(raw), **rest} if not rest:
            with contextlib.suppress(msgspec.DecodeError, RecursionError):
                return msgspec.json.decode(raw, type=dict[str, Any])
        case _:
            pass
    return args


def result_block(body: ToolResult, style: Style) -> str:
    failure = body.structured_error
    if failure is not None and failure.type == "UNKNOWN_OUTCOME":
        return style.yellow(f"  ? {escape(failure.message)}")
    facts = [f"exit {body.exit_code}"] if body.exit_code is not None else []
    facts.append(f"{body.duration_ms / 1000:.1f}s")
    text, sign = body.text, "✗" if body.is_error else "✓"
    if body.exit_code is not None:
        text = text.partition("\n")[2].removeprefix("stdout:\n")
    head = f"  {sign} {' · '.join(facts)}"
    shown = preview(text, style, is_complete=body.output is None)
    painted = style.red(head) if body.is_error else style.dim(head)
    return f"{painted}\n{shown}" if shown else painted


def preview(text: str, style: Style, most: int = RESULT_LINES, *, is_complete: bool = True) -> str:
    """The first lines, dimmed, and how many were left out: of a part of a text, that is not known."""
    lines = [line for line in text.split("\n", most + 1)[:most] if line.strip()]
    left = text.rstrip("\n").count("\n") + 1 - most
    shown = [style.dim(f"    {escape(line[:LINE])}") for line in lines]
    if left > 0:
        shown.append(style.dim(f"    … {plural(left, 'more line') if is_complete else 'more; Ctrl-O shows all of it'}"))
    return "\n".join(shown)


def thought_block(text: str, style: Style) -> str:
    lines = _first_lines(escape(text.strip()).split("\n"), THOUGHT_LINES)
    return "\n".join(style.dim(f"{'✻' if number == 0 else ' '} {line}") for number, line in enumerate(lines))


def outcome_block(body: RunComplete, run: RunView, style: Style, known: str = "") -> str:
    """How the run ended, how long it took, what it used. A summary that is `known` is not repeated."""
    facts = [format_duration(max(0, run.ended_ts - run.started_ts) / 1000)]
    if run.turns:
        facts.append(plural(run.turns, "turn"))
    if run.input_tokens or run.output_tokens:
        facts.append(f"{format_tokens(run.input_tokens)} in, {format_tokens(run.output_tokens)} out")
    if run.cost_usd is not None:
        facts.append(f"${run.cost_usd:.4f}")
    if body.acceptance:
        facts.append(f"{body.acceptance.passed} of {body.acceptance.total} checks passed")
    if body.outcome == "success":
        return style.dim(f"✓ done · {' · '.join(facts)}")
    is_obvious = body.reason in (None, "", body.outcome, USER_CANCELLED)
    why = "" if is_obvious else f" ({_reason_text(body.reason or '')})"
    is_new = body.summary and body.summary != known and body.outcome != "cancelled"
    summary = f"\n  {one_line(body.summary, LINE)}" if is_new else ""
    sign = "■" if body.outcome == "cancelled" else "✗"
    return style.red(f"{sign} {body.outcome}{why}") + style.dim(f" · {' · '.join(facts)}") + summary


def error_block(error: Exception, style: Style) -> str:
    """An expected error: what happened, and the next step."""
    match error:
        case UserError():
            message, hint = str(error), error.hint
        case ProtocolError():
            message, hint = error.message, error.detail or ""
        case OSError(filename=str(path), strerror=str(reason)):
            message, hint = f"{reason}: {path}", ""
        case _:
            message, hint = str(error), ""
    return style.red(f"✗ {escape(message)}") + (f"\n  hint: {escape(hint)}" if hint else "")


def diff_block(text: str, style: Style, most: int = DIFF_LINES) -> str:
    """A unified diff; colour repeats what the signs say."""
    return "\n".join(diff_line(line, style) for line in _first_lines(escape(text).rstrip("\n").split("\n"), most))


def diff_line(line: str, style: Style) -> str:
    line = line[:LINE].expandtabs(4)
    if line.startswith(("+++", "---", "diff ", "index ", "new file", "deleted file")):
        return style.bold(line)
    if line.startswith("@@"):
        return style.cyan(line)
    if line.startswith("+"):
        return style.green(line)
    return style.red(line) if line.startswith("-") else line


def _decision_block(body: ApprovalReceived, style: Style, ts: int) -> str:
    by = _actor_name(body.by)
    if body.decision == "approve" and not acts_on_session(body.by):
        return style.dim(f"  ✓ allowed by {by}")
    if body.decision == "approve":
        comment = f": {one_line(body.comment, 200)}" if body.comment else ""
        return style.green(f"  ✓ approved by {by}{_granted_for(body, ts)}{comment}")
    reason = one_line((body.comment or "").removeprefix(f"by {by}: "), 200)
    if acts_on_session(body.by):
        return style.red(f"  ✗ denied by {by}" + (f": {reason}" if reason else ""))
    return style.red(f"  ✗ denied by {by}" + (f" ({reason})" if reason else ""))


def _actor_name(by: str) -> str:
    match parse_actor(by):
        case ClientActor(name):
            return "you" if name == ME else escape(name)
        case RuleActor() as rule if rule == SESSION_GRANT:
            return "your approval for this session"
        case RuleActor(id):
            return f"rule {escape(id)}"
        case RuntimeActor() as actor:
            return actor.value


def _granted_for(body: ApprovalReceived, ts: int) -> str:
    match body.scope:
        case "session":
            return " for this session"
        case "always":
            return " from now on"
        case "until" if body.expires_at and ts:
            minutes = max(1, round((body.expires_at - ts) / 60_000))
            return f" for {plural(minutes, 'minute')}"
        case _:
            return ""


def _first_lines(lines: list[str], most: int) -> list[str]:
    left = len(lines) - most
    return lines if left <= 1 else [*lines[:most], f"… {left} more lines"]
