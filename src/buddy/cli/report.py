"""What a headless run shows: status on stderr, data on stdout. Events are plain JSON here, as they came."""

from __future__ import annotations

import sys

from buddy.cli.talk import encoded
from buddy.terminal.escape import escape, escape_json, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from buddy.cli.talk import Fields


class Seen:
    """One run, as far as its outcome tells of it."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.text = ""
        self.complete: Fields | None = None
        self._turns = 0
        self._usage: Fields = {}
        self._tokens = [0, 0]
        self._cost: float | None = None
        self._times: tuple[int, int] = (0, 0)

    @property
    def exit_code(self) -> int:
        headless: Fields | None = self.complete.get("headless") if self.complete else None
        return headless["exitCodeHint"] if headless else 1

    def take(self, event: Fields) -> None:
        payload: Fields = event["payload"]
        match event["type"]:
            case "run_started" if not self._times[0]:
                self._times = event["ts"], event["ts"]
            case "model_request" if payload.get("purpose", "reply") == "reply":
                self._turns = payload["turn"]
            case "assistant_message":
                self.text = payload["text"]
            case "usage":
                self._usage = payload
                self._tokens[0] += payload["inputTokens"]
                self._tokens[1] += payload["outputTokens"]
                if (cost := payload.get("costUsd")) is not None:
                    self._cost = (self._cost or 0.0) + cost
            case "run_complete":
                self.complete = payload
                self._times = self._times[0], event["ts"]
            case _:
                pass

    def outcome(self, session_id: str) -> Fields:
        """The object of `--json`."""
        complete = self.complete or {}
        used, made = self._tokens
        return {
            "sessionId": session_id,
            "runId": self.run_id,
            "outcome": complete.get("outcome", "failed"),
            "exitCode": self.exit_code,
            "text": self.text,
            "summary": complete.get("summary", ""),
            "acceptance": complete.get("acceptance") or {"total": 0, "passed": 0, "results": []},
            "usage": {"inputTokens": used, "outputTokens": made, "budget": self._usage.get("budget")},
            "costUsd": self._cost,
            "turns": self._turns,
            "durationMs": max(0, self._times[1] - self._times[0]),
        }


class Report:
    def __init__(self, *, json: bool, stream_json: bool) -> None:
        self._json = json
        self._stream_json = stream_json
        self._thought = ""
        self._error = ""

    def session(self, session_id: str) -> None:
        print(f"session {escape(session_id)}", file=sys.stderr)

    def event(self, event: Fields, line: bytes) -> None:
        """Show one event."""
        if self._stream_json:
            _write_json(line.rstrip(b"\n") + b"\n")
        elif event["type"] == "thinking_token":
            self._thought += event["payload"]["text"]
        else:
            self._end_thought()
            if event["type"] == "error":
                self._error = event["payload"]["message"]
            if (told := _line_of(event["type"], event["payload"])) is not None:
                print(told, file=sys.stderr)

    def finish(self, session_id: str, run: Seen) -> int:
        """Print the answer or the outcome; give the exit code."""
        if self._json:
            _write_json(encoded(run.outcome(session_id)))
        elif not self._stream_json:
            self._answer(run)
        sys.stdout.flush()
        return run.exit_code

    def _end_thought(self) -> None:
        """A thought is shown when it is over: none of its pieces is a line."""
        thought, self._thought = self._thought.strip(), ""
        if thought:
            print(f"✻ {escape(thought)}", file=sys.stderr)

    def _answer(self, run: Seen) -> None:
        if run.text:
            print(escape(run.text) if sys.stdout.isatty() else run.text)
        complete = run.complete
        if complete is not None and complete["outcome"] != "success" and complete["summary"] != self._error:
            summary = complete["summary"].removeprefix(f"{complete['outcome']}: ")
            print(f"{complete['outcome']}: {escape(summary)}", file=sys.stderr)


def _write_json(line: bytes) -> None:
    """Exact for a pipe; for a terminal the same value, spelt so that nothing in it acts on the terminal."""
    sys.stdout.buffer.write(escape_json(line.decode()).encode() if sys.stdout.isatty() else line)
    sys.stdout.buffer.flush()


def _line_of(kind: str, payload: Fields) -> str | None:  # noqa: C901 - one arm per event, nothing nested
    match kind:
        case "session_started" if payload.get("watch"):
            return f"commands run in a pane that you can watch: {escape(payload['watch'])}"
        case "tool_call":
            return f"▶ {escape(payload['toolName'])} {one_line(encoded(payload['args']).decode(), 100)}"
        case "tool_result":
            return f"← {one_line(payload['text'])}"
        case "approval_received":
            return f"{payload['decision']} by {escape(payload['by'])}"
        case "approval_expired":
            return "nobody decided in time: denied"
        case "acceptance_result":
            word = "passed" if payload["passed"] else f"failed with exit code {payload['exitCode']}"
            return f"check {escape(payload['id'])} {word}"
        case "model_request" if payload["attempt"] > 1:
            return f"retrying in {payload.get('waitMs') or 0} ms: {one_line(payload.get('reason') or '')}"
        case "run_started" if payload.get("recovered"):
            return "recovered an interrupted run"
        case "recovery" if payload["action"] == "unknown_outcome":
            return f"the outcome of {escape(payload.get('callId') or 'a call')} is not known"
        case "run_cancelling":
            return f"cancelling: {escape(payload['reason'])}"
        case "warning" if payload["code"] != "FOLDER_NOT_TRUSTED":  # the command has said it
            return f"warning: {escape(payload['message'])}{_hint(payload)}"
        case "error":
            return f"error: {escape(payload['message'])}{_hint(payload)}"
        case _:
            return None


def _hint(payload: Fields) -> str:
    """What to do about it, where its detail says that."""
    detail = payload.get("detail") if payload["code"] in ("PROVIDER_ERROR", "CONTEXT_UNKNOWN") else None
    return f"\nhint: {escape(detail)}" if detail else ""
