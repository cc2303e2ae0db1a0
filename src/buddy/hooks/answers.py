"""What a script's exit code and output mean at each event.

Invariants: exit 0 goes on, exit 2 blocks, anything else failed. Where a script guards a call, output that cannot be
understood is a failure, too.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from buddy.backends.hooks import FAIL_CLOSED
from buddy.protocol.hook_events import HookEvent, HookVerdict

MAX_REASON = 2000
MAX_CONTEXT = 10_000
BLOCK = 2
_TAKES_TEXT: tuple[HookEvent, ...] = ("UserPromptSubmit", "SessionStart")
_CANNOT_BLOCK: tuple[HookEvent, ...] = ("SessionStart", "SessionEnd", "Notification")


class Answer(Struct, frozen=True):
    """What a script wants. `input` is in its own names."""

    verdict: HookVerdict = "none"
    reason: str = ""
    input: dict[str, Any] | None = None
    context: str = ""
    message: str = ""
    stop: bool = False


class ScriptOutput(Struct, frozen=True):
    code: int
    stdout: bytes = b""
    stderr: bytes = b""


class _Behaviour(Struct, frozen=True):
    behavior: Literal["allow", "deny"]
    message: str | None = None
    interrupt: bool | None = None
    updated_input: dict[str, Any] | None = field(default=None, name="updatedInput")


class _Specific(Struct, frozen=True):
    permission: Literal["allow", "deny", "ask", "defer"] | None = field(default=None, name="permissionDecision")
    reason: str | None = field(default=None, name="permissionDecisionReason")
    updated_input: dict[str, Any] | None = field(default=None, name="updatedInput")
    context: str | None = field(default=None, name="additionalContext")
    decision: _Behaviour | None = None


class _Json(Struct, frozen=True):
    goes_on: bool = field(default=True, name="continue")
    stop_reason: str | None = field(default=None, name="stopReason")
    message: str | None = field(default=None, name="systemMessage")
    decision: Literal["approve", "allow", "block", "deny", "ask"] | None = None
    reason: str | None = None
    specific: _Specific | None = field(default=None, name="hookSpecificOutput")


def failed(reason: str) -> Answer:
    return Answer("failed", _bounded(reason, MAX_REASON))


def read_answer(event: HookEvent, output: ScriptOutput) -> Answer:
    stdout, stderr = (raw.decode("utf-8", "replace").strip() for raw in (output.stdout, output.stderr))
    if output.code == BLOCK:
        return _blocked(event, stderr or stdout or "it gave no reason")
    if output.code != 0:
        how = f"was ended by signal {-output.code}" if output.code < 0 else f"exited with code {output.code}"
        return failed(f"it {how}{f': {stderr[-500:]}' if stderr else ''}")
    if not stdout:
        return Answer()
    if not stdout.startswith("{"):
        return _plain(event, stdout)
    try:
        parsed = msgspec.json.decode(stdout, type=_Json)
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as error:
        return failed(f"its output is not what a hook may print: {error}")
    return _bound(_interpret(event, parsed))


def _blocked(event: HookEvent, reason: str) -> Answer:
    if event in _CANNOT_BLOCK:
        return Answer(message=_bounded(reason, MAX_REASON))
    return _bound(Answer("deny", reason, context=reason if event == "PostToolUse" else ""))


def _plain(event: HookEvent, text: str) -> Answer:
    if event in _TAKES_TEXT:
        return Answer(context=_bounded(text, MAX_CONTEXT))
    if event in FAIL_CLOSED:
        return failed(f"its output is not JSON: {text[:200]}")
    return Answer()


def _interpret(event: HookEvent, said: _Json) -> Answer:
    specific = said.specific or _Specific()
    answer = Answer(context=specific.context or "", message=said.message or "")
    match event:
        case "PreToolUse":
            answer = _before_call(answer, said, specific)
        case "PermissionRequest":
            answer = _permission(answer, said, specific.decision)
        case "PostToolUse" | "UserPromptSubmit" | "Stop" | "PreCompact":
            answer = _blocking(event, answer, said)
        case "SessionStart" | "SessionEnd" | "Notification":
            pass
    if said.goes_on or event in _CANNOT_BLOCK:
        return answer
    reason = said.stop_reason or answer.reason or "it wants the run to end"
    verdict = "none" if event in ("Stop", "PostToolUse") else "deny"
    return replace(answer, verdict=verdict, reason=reason, input=None, stop=True)


def _before_call(answer: Answer, said: _Json, specific: _Specific) -> Answer:
    verdicts: dict[str | None, HookVerdict] = {
        None: "none",
        "approve": "allow",
        "allow": "allow",
        "block": "deny",
        "deny": "deny",
        "ask": "ask",
        "defer": "ask",
    }
    verdict = verdicts[specific.permission or said.decision]
    changed = specific.updated_input if verdict != "deny" else None
    if changed is not None and verdict != "ask":
        verdict = "changed"
    return replace(answer, verdict=verdict, reason=specific.reason or said.reason or "", input=changed)


def _permission(answer: Answer, said: _Json, decision: _Behaviour | None) -> Answer:
    if decision is None:
        blocks = said.decision in ("block", "deny")
        return replace(answer, verdict="deny", reason=said.reason or "") if blocks else answer
    if decision.updated_input is not None:
        return failed("it changed the input, which only PreToolUse can do")
    reason, stop = decision.message or said.reason or "", decision.behavior == "deny" and bool(decision.interrupt)
    return replace(answer, verdict=decision.behavior, reason=reason, stop=stop)


def _blocking(event: HookEvent, answer: Answer, said: _Json) -> Answer:
    if said.decision not in ("block", "deny"):
        return answer
    reason = said.reason or "it gave no reason"
    context = "\n".join(part for part in (reason, answer.context) if part) if event == "PostToolUse" else ""
    return replace(answer, verdict="deny", reason=reason, context=context)


def _bound(answer: Answer) -> Answer:
    return replace(
        answer,
        reason=_bounded(answer.reason, MAX_REASON),
        context=_bounded(answer.context, MAX_CONTEXT),
        message=_bounded(answer.message, MAX_REASON),
    )


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{len(text) - most} more characters]"
