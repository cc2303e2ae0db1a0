"""What a headless run shows: status on stderr, data on stdout."""

import sys

import msgspec

from buddy.client.view import RunView
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalExpired,
    ApprovalReceived,
    Error,
    EventBody,
    ModelRequest,
    Recovery,
    RunCancelling,
    RunStarted,
    ToolCall,
    ToolResult,
    Warning,  # noqa: A004 - the seed's word
)
from buddy.protocol.shapes import Acceptance
from buddy.terminal.escape import escape, escape_json, one_line


class Report:
    def __init__(self, *, json: bool, stream_json: bool) -> None:
        self._json = json
        self._stream_json = stream_json

    def session(self, session_id: str) -> None:
        print(f"session {escape(session_id)}", file=sys.stderr)

    def event(self, event: Event) -> None:
        """Show one event."""
        if self._stream_json:
            _write_json(event.line())
            return
        body = event.body()
        line = _line_of(body) if body is not None else None
        if line is not None:
            print(line, file=sys.stderr)

    def finish(self, session_id: str, run: RunView) -> int:
        """Print the answer or the outcome; give the exit code."""
        code = exit_code(run)
        if self._json:
            _write_json(msgspec.json.encode(outcome_of(session_id, run)) + b"\n")
        elif not self._stream_json:
            self._answer(run)
        sys.stdout.flush()
        return code

    def _answer(self, run: RunView) -> None:
        text = run.finished_text
        if text:
            print(escape(text) if sys.stdout.isatty() else text)
        complete = run.complete
        if complete is not None and complete.outcome != "success":
            print(f"{complete.outcome}: {escape(complete.summary)}", file=sys.stderr)


def _write_json(line: bytes) -> None:
    """Exact for a pipe; for a terminal the same value, spelt so that nothing in it acts on the terminal."""
    sys.stdout.buffer.write(escape_json(line.decode()).encode() if sys.stdout.isatty() else line)
    sys.stdout.buffer.flush()


def exit_code(run: RunView) -> int:
    if run.complete is None:
        return 1
    return run.complete.headless.exit_code_hint if run.complete.headless else 1


def outcome_of(session_id: str, run: RunView) -> dict[str, object]:
    """The object of `--json`."""
    complete = run.complete
    acceptance = complete.acceptance if complete else None
    return {
        "sessionId": session_id,
        "runId": run.run_id,
        "outcome": complete.outcome if complete else "failed",
        "exitCode": exit_code(run),
        "text": run.finished_text,
        "summary": complete.summary if complete else "",
        "acceptance": acceptance or Acceptance(0, 0, ()),
        "usage": {"inputTokens": run.input_tokens, "outputTokens": run.output_tokens, "budget": run.budget},
        "costUsd": run.cost_usd,
        "turns": run.turns,
        "durationMs": max(0, run.ended_ts - run.started_ts),
    }


def _line_of(body: EventBody) -> str | None:  # noqa: C901 - one arm per event, nothing nested
    match body:
        case ToolCall():
            return f"▶ {escape(body.tool_name)} {one_line(msgspec.json.encode(body.args).decode(), 100)}"
        case ToolResult():
            return f"← {one_line(body.text)}"
        case ApprovalReceived():
            return f"{body.decision} by {escape(body.by)}"
        case ApprovalExpired():
            return "nobody decided in time: denied"
        case AcceptanceResult():
            word = "passed" if body.passed else f"failed with exit code {body.exit_code}"
            return f"check {escape(body.id)} {word}"
        case ModelRequest() if body.attempt > 1:
            return f"retrying in {body.wait_ms or 0} ms: {one_line(body.reason or '')}"
        case RunStarted() if body.recovered:
            return "recovered an interrupted run"
        case Recovery() if body.action == "unknown_outcome":
            return f"the outcome of {escape(body.call_id or 'a call')} is not known"
        case RunCancelling():
            return f"cancelling: {escape(body.reason)}"
        case Warning():
            return f"warning: {escape(body.message)}"
        case Error():
            return f"error: {escape(body.message)}" + (
                f"\nhint: {escape(body.detail)}" if body.detail and body.code == "PROVIDER_ERROR" else ""
            )
        case _:
            return None
