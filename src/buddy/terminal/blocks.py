"""Events as finished blocks of styled lines: what was said, called, decided, and how it ended.

What always holds: everything from outside is escaped; a block is bounded however long its event was; without colour the
words and signs alone say everything.
"""

import msgspec

from buddy.client.view import RunView
from buddy.errors import ProtocolError, UserError
from buddy.protocol.actors import acts_on_session
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalPolicyChanged,
    ApprovalReceived,
    Error,
    EventBody,
    ModelRequest,
    ModelSwitched,
    Recovery,
    RunCancelling,
    RunComplete,
    RunStarted,
    SessionCompacted,
    SessionForked,
    SessionResumed,
    SessionStarted,
    ToolCall,
    ToolResult,
    UserMessage,
    WarningRaised,
)
from buddy.terminal.escape import escape, one_line
from buddy.terminal.liveness import amount, duration
from buddy.terminal.style import Style

RESULT_LINES = 6
CONTENT_LINES = 10
MESSAGE_LINES = 40
THOUGHT_LINES = 20
DIFF_LINES = 200
LINE = 400


def told(body: EventBody, style: Style, *, me: str = "cli") -> str | None:
    """One event as a block; None for what only says that work is under way."""
    match body:
        case UserMessage():
            return user_block(body, style, me=me)
        case ToolCall():
            return call_block(body, style)
        case ToolResult():
            return result_block(body, style)
        case ApprovalReceived():
            return _decision(body, style)
        case ApprovalExpired():
            return style.red("  ✗ nobody decided in time: denied")
        case AcceptanceResult():
            word = "passed" if body.passed else f"failed with exit code {body.exit_code}"
            line = f"  {'✓' if body.passed else '✗'} check {escape(body.id)} {word}"
            return style.green(line) if body.passed else f"{style.red(line)}\n{preview(body.output, style)}"
        case WarningRaised():
            return style.yellow(f"! {escape(body.message)}") + _hint(body)
        case Error():
            return style.red(f"✗ {escape(body.message)}") + _hint(body)
        case _:
            return _noted(body, style)


def _hint(body: WarningRaised | Error) -> str:
    """What to do about it, where its detail says that."""
    is_advice = body.code in ("PROVIDER_ERROR", "CONTEXT_UNKNOWN")
    return f"\n  hint: {escape(body.detail)}" if body.detail and is_advice else ""


def _noted(body: EventBody, style: Style) -> str | None:
    match body:
        case ModelRequest() if body.attempt > 1:
            text = f"  ↻ again in {(body.wait_ms or 0) / 1000:g} s: {one_line(body.reason or '', 200)}"
        case RunStarted() if body.recovered:
            text = "  ↻ an interrupted run goes on"
        case Recovery() if body.action == "unknown_outcome":
            return style.yellow(f"  ? it is not known whether {escape(body.call_id or 'a call')} happened")
        case RunCancelling():
            text = f"  ■ cancelling ({escape(body.reason)}, by {escape(body.by)})"
        case ApprovalPolicyChanged():
            policy = "nothing is asked for a while" if body.policy == "until" else body.policy
            text = f"  approvals: {policy} (by {escape(body.by)})"
        case ModelSwitched():
            text = f"  model: {escape(body.after.get('profile', ''))} · {escape(body.after.get('model', ''))}"
        case _:
            text = _session_note(body)
    return None if text is None else style.dim(text)


def _session_note(body: EventBody) -> str | None:
    match body:
        case SessionStarted() if body.watch:
            return f"  commands run in a pane that you can watch: {escape(body.watch)}"
        case SessionResumed():
            return "  ↻ taken up again"
        case SessionCompacted():
            done = "taken back" if body.undo else f"{amount(body.before_tokens)} → {amount(body.after_tokens)} tokens"
            return f"  compacted: {done}"
        case SessionForked():
            return f"  forked from {escape(body.from_session_id)} at {body.from_seq}"
        case _:
            return None


def user_block(body: UserMessage, style: Style, *, me: str) -> str:
    """What was asked, marked; another client's name is shown with it."""
    lines = _bounded(escape(body.text).split("\n"), MESSAGE_LINES)
    who = "" if body.by in (me, "headless") else style.dim(f"[{one_line(body.by, 30)}] ")
    first, *rest = lines
    return "\n".join([f"{style.green('>')} {who}{style.bold(first)}", *(f"  {style.bold(line)}" for line in rest)])


def call_block(body: ToolCall, style: Style) -> str:
    head = f"{style.yellow('▶')} {style.yellow(one_line(body.tool_name, 60))}"
    match body.args:
        case {"command": str(command)}:
            first, *rest = _bounded(escape(command).split("\n"), CONTENT_LINES)
            return "\n".join([f"{head} {style.dim('$')} {first}", *(f"    {line}" for line in rest)])
        case {"path": str(path), "content": str(content)}:
            added = _bounded(escape(content).rstrip("\n").split("\n"), CONTENT_LINES)
            shown = "\n".join(style.green(f"    + {line[:LINE]}") for line in added)
            return f"{head} {one_line(path, 200)}\n{shown}"
        case {"path": str(path), **rest} if not rest:
            return f"{head} {one_line(path, 200)}"
        case _:
            return f"{head} {style.dim(one_line(msgspec.json.encode(body.args).decode(), 80))}"


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
    shown = preview(text, style)
    painted = style.red(head) if body.is_error else style.dim(head)
    return f"{painted}\n{shown}" if shown else painted


def preview(text: str, style: Style, most: int = RESULT_LINES) -> str:
    """The first lines, dim, and how many more there are."""
    lines = [line for line in text.split("\n", most + 1)[:most] if line.strip()]
    left = text.rstrip("\n").count("\n") + 1 - most
    shown = [style.dim(f"    {escape(line[:LINE])}") for line in lines]
    if left > 0:
        shown.append(style.dim(f"    … {left} more line{'s' if left > 1 else ''}"))
    return "\n".join(shown)


def thought_block(text: str, style: Style) -> str:
    lines = _bounded(escape(text.strip()).split("\n"), THOUGHT_LINES)
    return "\n".join(style.dim(f"{'✻' if number == 0 else ' '} {line}") for number, line in enumerate(lines))


def outcome_block(body: RunComplete, run: RunView, style: Style, known: str = "") -> str:
    """How it ended, how long it took, what it used; a summary that is `known` is not told again."""
    facts = [duration(max(0, run.ended_ts - run.started_ts) / 1000)]
    if run.turns:
        facts.append(f"{run.turns} turn{'s' if run.turns > 1 else ''}")
        facts.append(f"{amount(run.input_tokens)} in, {amount(run.output_tokens)} out")
    if run.cost_usd is not None:
        facts.append(f"${run.cost_usd:.4f}")
    if body.acceptance:
        facts.append(f"{body.acceptance.passed} of {body.acceptance.total} checks passed")
    if body.outcome == "success":
        return style.dim(f"✓ done · {' · '.join(facts)}")
    why = f" ({one_line(body.reason, 60)})" if body.reason and body.reason != body.outcome else ""
    is_new = body.summary and body.summary != known and body.outcome != "cancelled"
    summary = f"\n  {one_line(body.summary, LINE)}" if is_new else ""
    sign = "■" if body.outcome == "cancelled" else "✗"
    return style.red(f"{sign} {body.outcome}{why}") + style.dim(f" · {' · '.join(facts)}") + summary


def error_block(error: Exception, style: Style) -> str:
    """What went wrong on purpose, and what to do about it."""
    match error:
        case UserError():
            message, hint = str(error), error.hint
        case ProtocolError():
            message, hint = error.message, error.detail or ""
        case OSError(filename=str(place), strerror=str(what)):
            message, hint = f"{what}: {place}", ""
        case _:
            message, hint = str(error), ""
    return style.red(f"✗ {escape(message)}") + (f"\n  hint: {escape(hint)}" if hint else "")


def diff_block(text: str, style: Style, most: int = DIFF_LINES) -> str:
    """A unified diff: added and removed by sign and by colour."""
    return "\n".join(_diff_line(line, style) for line in _bounded(escape(text).rstrip("\n").split("\n"), most))


def _diff_line(line: str, style: Style) -> str:
    line = line[:LINE].expandtabs(4)
    if line.startswith(("+++", "---", "diff ", "index ", "new file", "deleted file")):
        return style.bold(line)
    if line.startswith("@@"):
        return style.cyan(line)
    if line.startswith("+"):
        return style.green(line)
    return style.red(line) if line.startswith("-") else line


def _decision(body: ApprovalReceived, style: Style) -> str | None:
    if not acts_on_session(body.by):
        if body.decision == "approve":
            return style.dim(f"  ✓ allowed by {escape(body.by)}")
        why = f": {one_line(body.comment, 200)}" if body.comment else ""
        return style.red(f"  ✗ denied by {escape(body.by)}{why}")
    comment = f": {one_line(body.comment, 200)}" if body.comment else ""
    scope = f" ({'for a while' if body.scope == 'until' else body.scope})" if body.scope else ""
    if body.decision == "approve":
        return style.green(f"  ✓ approved by {escape(body.by)}{scope}{comment}")
    return style.red(f"  ✗ denied by {escape(body.by)}{comment}")


def _bounded(lines: list[str], most: int) -> list[str]:
    left = len(lines) - most
    return lines if left <= 1 else [*lines[:most], f"… {left} more lines"]
