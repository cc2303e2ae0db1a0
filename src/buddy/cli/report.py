"""What a headless run shows: status on stderr, data on stdout."""

import sys
from typing import Any

import msgspec

from buddy.client.view import RunView
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalReceived,
    AssistantMessage,
    Error,
    EventBody,
    ModelRequest,
    Recovery,
    RunCancelling,
    RunStarted,
    SessionStarted,
    ThinkingToken,
    ToolCall,
    ToolResult,
    UserMessage,
    WarningRaised,
)
from buddy.terminal.escape import escape, escape_json, one_line

DECIDED = {"approve": "approved", "deny": "denied"}


class Report:
    def __init__(self, *, json: bool, stream_json: bool) -> None:
        self._json = json
        self._stream_json = stream_json
        self._thought = ""
        self._error = ""

    def session(self, session_id: str) -> None:
        print(f"session {escape(session_id)}", file=sys.stderr)

    def event(self, event: Event, body: EventBody | None) -> None:
        """Show one event."""
        if self._stream_json:
            _write_json(event.line())
            return
        match body:
            case ThinkingToken():
                self._thought += body.text
                return
            case Error():
                self._error = body.message
            case _:
                pass
        self._end_thought()
        line = _status_line(body) or _note_line(body)
        if line is not None:
            print(line, file=sys.stderr)

    def conversation(self, event: Event) -> None:
        """Show one event of a session that is only watched, including messages."""
        body = event.body()
        self.event(event, body)
        if isinstance(body, (AssistantMessage, UserMessage)) and not self._stream_json and body.text:
            who = "you" if isinstance(body, UserMessage) else "buddy"
            text = body.text if not sys.stdout.isatty() else escape(body.text)
            print(f"{who}: {text}", flush=True)

    def finish(self, session_id: str, run: RunView) -> int:
        """Print the answer or the outcome; return the exit code."""
        if self._json:
            _write_json(msgspec.json.encode(_outcome(session_id, run)) + b"\n")
        elif not self._stream_json:
            self._answer(run)
        sys.stdout.flush()
        return _exit_code(run)

    def _end_thought(self) -> None:
        """Show a thought once it is complete: its pieces are not lines."""
        thought, self._thought = self._thought.strip(), ""
        if thought:
            print(f"✻ {escape(thought)}", file=sys.stderr)

    def _answer(self, run: RunView) -> None:
        if run.finished_text:
            print(escape(run.finished_text) if sys.stdout.isatty() else run.finished_text)
        complete = run.complete
        if complete is not None and complete.outcome != "success" and complete.summary != self._error:
            summary = complete.summary.removeprefix(f"{complete.outcome}: ")
            print(f"{complete.outcome}: {escape(summary)}", file=sys.stderr)


def _exit_code(run: RunView) -> int:
    return run.complete.headless.exit_code_hint if run.complete and run.complete.headless else 1


def _outcome(session_id: str, run: RunView) -> dict[str, Any]:
    """The object of `--json`."""
    complete = run.complete
    usage = {"inputTokens": run.input_tokens, "outputTokens": run.output_tokens, "budget": run.budget}
    return {
        "sessionId": session_id,
        "runId": run.run_id,
        "outcome": complete.outcome if complete else "failed",
        "exitCode": _exit_code(run),
        "text": run.finished_text,
        "summary": complete.summary if complete else "",
        "acceptance": (complete.acceptance if complete else None) or {"total": 0, "passed": 0, "results": []},
        "usage": usage,
        "costUsd": run.cost_usd,
        "turns": run.turns,
        "durationMs": max(0, run.ended_ts - run.started_ts),
    }


def _write_json(line: bytes) -> None:
    """Byte for byte to a pipe; to a terminal the same value, with control characters escaped."""
    sys.stdout.buffer.write(escape_json(line.decode()).encode() if sys.stdout.isatty() else line)
    sys.stdout.buffer.flush()


def _status_line(body: EventBody | None) -> str | None:
    """What the run does."""
    match body:
        case ToolCall():
            return f"▶ {escape(body.tool_name)} {one_line(msgspec.json.encode(body.args).decode(), 100)}"
        case ToolResult():
            return f"← {one_line(body.text)}"
        case ApprovalReceived():
            return f"{DECIDED[body.decision]} by {escape(body.by)}"
        case ApprovalExpired():
            return "approval timed out; denied"
        case AcceptanceResult():
            word = "passed" if body.passed else f"failed with exit code {body.exit_code}"
            return f"check {escape(body.id)} {word}"
        case ModelRequest() if body.attempt > 1:
            return f"retrying in {body.wait_ms or 0} ms: {one_line(body.reason or '')}"
        case RunCancelling():
            return f"cancelling: {escape(body.reason)}"
        case _:
            return None


def _note_line(body: EventBody | None) -> str | None:
    """What should be known about the run."""
    match body:
        case SessionStarted() if body.watch:
            return f"commands run in a pane that you can watch: {escape(body.watch)}"
        case RunStarted() if body.recovered:
            return "recovered an interrupted run"
        case Recovery() if body.action == "unknown_outcome":
            return f"the outcome of {escape(body.call_id or 'a call')} is unknown"
        case WarningRaised() if body.code != "FOLDER_NOT_TRUSTED":  # the command has already said so
            return f"warning: {escape(body.message)}{_hint(body)}"
        case Error():
            return f"error: {escape(body.message)}{_hint(body)}"
        case _:
            return None


def _hint(body: WarningRaised | Error) -> str:
    """The next step, for codes whose detail is one."""
    detail = body.detail if body.code in ("PROVIDER_ERROR", "CONTEXT_UNKNOWN") else None
    return f"\nhint: {escape(detail)}" if detail else ""
