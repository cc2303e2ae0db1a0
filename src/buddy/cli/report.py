"""What a headless run shows: status on stderr, data on stdout."""

import sys
from typing import TYPE_CHECKING, Any

from buddy.client.core import encode_json
from buddy.terminal.approval_screen import Asked, approval_text
from buddy.terminal.escape import escape, escape_json, one_line
from buddy.terminal.hook_lines import hook_line
from buddy.terminal.line_question import terminal_size
from buddy.terminal.phrases import format_deadline, redacted_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from buddy.client.view import RunView
    from buddy.protocol.json_events import Error, JsonEvent, ToolResult, WarningRaised

WITH_HINTS = ("PROVIDER_ERROR", "CONTEXT_UNKNOWN", "MCP_SERVER_FAILED", "MCP_NEEDS_LOGIN")
DECIDED = {"approve": "approved", "deny": "denied"}
UNATTENDED = ("policy", "headless")
ALLOW_HINT = (
    "hint: nobody could be asked; use --approve all, --approve 10m or an allow rule (see 'buddy approvals --help')"
)


class Report:
    def __init__(self, *, json: bool, stream_json: bool) -> None:
        self._json = json
        self._stream_json = stream_json
        self._thought = ""
        self._error = ""
        self._denied_by = ""
        self.while_asking: Callable[[], object] = lambda: None
        """Called regularly while a question is open, if a terminal is drawn on."""

    def session(self, session_id: str) -> None:
        print(f"session {escape(session_id)}", file=sys.stderr)

    def event(self, event: "JsonEvent", line: bytes) -> bool:
        """Show one event; `line` is its JSON text. Returns whether a line of status was printed."""
        if self._stream_json:
            _write_json(line)
            return False
        if event["type"] == "thinking_token":
            self._thought += event["payload"]["text"]
            return False
        if event["type"] == "error":
            self._error = event["payload"]["message"]
        elif event["type"] == "approval_received" and event["payload"]["decision"] == "deny":
            self._denied_by = event["payload"]["by"]
        self._end_thought()
        text = self._line_of(event)
        if text is not None:
            self._print_line(text)
        return text is not None

    def conversation(self, event: "JsonEvent", line: bytes) -> None:
        """Show one event of a session that is only watched, including messages."""
        self.event(event, line)
        if self._stream_json:
            return
        match event["type"]:
            case "assistant_message" | "user_message":
                text, who = event["payload"]["text"], "you" if event["type"] == "user_message" else "buddy"
                if text:
                    print(f"{who}: {escape(text) if sys.stdout.isatty() else text}", flush=True)
            case "approval_required":
                shown = event["payload"]
                text = approval_text(
                    Asked(shown["title"], shown["summary"], shown["details"], shown.get("agent")),
                    terminal_size(sys.stderr)[0],
                )
                left = format_deadline(shown["expiresAt"], event["ts"] / 1000)
                lines = [*(line.framed for line in text.lines), *([left] if left else [])]
                print("\n".join(lines), file=sys.stderr)
            case _:
                pass

    def finish(self, session_id: str, run: "RunView") -> int:
        """Print the answer or the outcome; return the exit code."""
        if self._json:
            _write_json(encode_json(_outcome(session_id, run)))
        elif not self._stream_json:
            self._answer(run)
        sys.stdout.flush()
        return _exit_code(run)

    def _end_thought(self) -> None:
        """Show a thought once it is complete: its pieces are not lines."""
        thought, self._thought = self._thought.strip(), ""
        if thought:
            self._print_line(f"✻ {escape(thought)}")

    def _line_of(self, event: "JsonEvent") -> str | None:
        return _status_line(event) or _question_line(event) or _note_line(event)

    def _print_line(self, text: str) -> None:
        print(text, file=sys.stderr)

    def _print_answer(self, text: str) -> None:
        print(escape(text) if sys.stdout.isatty() else text)

    def _answer(self, run: "RunView") -> None:
        complete = run.complete
        is_denied = complete is not None and complete["outcome"] == "denied"
        if run.finished_text and not is_denied:  # what the model announced before it was denied is not an answer
            self._print_answer(run.finished_text)
        if complete is not None and complete["outcome"] != "success" and complete["summary"] != self._error:
            summary = complete["summary"].removeprefix(f"{complete['outcome']}: ")
            self._print_line(f"{complete['outcome']}: {escape(summary)}")
        if is_denied and self._denied_by in UNATTENDED:
            self._print_line(ALLOW_HINT)


def _exit_code(run: "RunView") -> int:
    headless = run.complete.get("headless") if run.complete else None
    return headless["exitCodeHint"] if headless else 1


def _outcome(session_id: str, run: "RunView") -> dict[str, Any]:
    """The object of `--json`."""
    complete = run.complete
    usage = {"inputTokens": run.input_tokens, "outputTokens": run.output_tokens, "budget": run.budget}
    return {
        "sessionId": session_id,
        "runId": run.run_id,
        "outcome": complete["outcome"] if complete else "failed",
        "exitCode": _exit_code(run),
        "text": run.finished_text,
        "summary": complete["summary"] if complete else "",
        "acceptance": (complete.get("acceptance") if complete else None) or {"total": 0, "passed": 0, "results": []},
        "usage": usage,
        "costUsd": run.cost_usd,
        "turns": run.turns,
        "durationMs": max(0, run.ended_ts - run.started_ts),
    }


def _write_json(line: bytes) -> None:
    """Byte for byte to a pipe; to a terminal the same value, with control characters escaped."""
    sys.stdout.buffer.write((escape_json(line.decode()).encode() if sys.stdout.isatty() else line) + b"\n")
    sys.stdout.buffer.flush()


def _status_line(event: "JsonEvent") -> str | None:
    """What the run does."""
    match event["type"]:
        case "tool_call":
            call = event["payload"]
            return f"▶ {escape(call['toolName'])} {one_line(encode_json(call['args']).decode(), 100)}"
        case "tool_result":
            return None if _never_started(event["payload"]) else f"← {one_line(event['payload']['text'])}"
        case "approval_received":
            decision, by = event["payload"]["decision"], event["payload"]["by"]
            # The call's result says that the policy denied it, or the run's outcome does.
            return None if decision == "deny" and by == "policy" else f"{DECIDED[decision]} by {escape(by)}"
        case "approval_expired":
            return "approval timed out; denied"
        case "acceptance_result":
            result = event["payload"]
            word = "passed" if result["passed"] else f"failed with exit code {result['exitCode']}"
            return f"check {escape(result['id'])} {word}"
        case "model_request" if event["payload"]["attempt"] > 1:
            request = event["payload"]
            return f"retrying in {request.get('waitMs') or 0} ms: {one_line(request.get('reason') or '')}"
        case "child_started":
            child = event["payload"]
            return f"sub-agent {escape(child['agent'])} started: session {escape(child['sessionId'])}"
        case "child_finished":
            return f"sub-agent {escape(event['payload']['agent'])} finished: {event['payload']['outcome']}"
        case "run_cancelling":
            return f"cancelling: {escape(event['payload']['reason'])}"
        case _:
            return None


def _question_line(event: "JsonEvent") -> str | None:
    """What a server asks, and who answered."""
    match event["type"]:
        case "question_asked":
            from buddy.terminal.question_text import question_lines

            return "\n".join(question_lines(event["payload"]))
        case "question_answered":
            by = event["payload"]["by"]
            word = {"accept": "answered", "decline": "declined", "cancel": "cancelled"}[event["payload"]["action"]]
            return f"question {word} by {escape(by)}{'; nobody is there to be asked' if by == 'policy' else ''}"
        case _:
            return None


def _never_started(result: "ToolResult") -> bool:
    """Whether the run ended before the call started: the outcome says why."""
    failure = result["structuredError"]
    return result.get("outcome") == "closed" and (failure is None or failure["type"] != "UNKNOWN_OUTCOME")


def _note_line(event: "JsonEvent") -> str | None:
    """What should be known about the run."""
    match event["type"]:
        case "session_started":
            watch = event["payload"].get("watch")
            return f"commands run in a pane that you can watch: {escape(watch)}" if watch else None
        case "user_message" if event["payload"].get("redacted"):
            text = redacted_text(event["payload"].get("redacted") or 0)
            return f"warning: {text}\nhint: --as-is sends it unredacted, except for registered secrets"
        case "run_started":
            return "recovered an interrupted run" if event["payload"].get("recovered") else None
        case "recovery" if event["payload"]["action"] == "unknown_outcome":
            return f"the outcome of {escape(event['payload'].get('callId') or 'a call')} is unknown"
        case "warning" if event["payload"]["code"] != "FOLDER_NOT_TRUSTED":  # the command has already said so
            return f"warning: {escape(event['payload']['message'])}{_hint(event['payload'])}"
        case "hook_finished":
            said = event["payload"]
            return hook_line(said["event"], said["hook"], said["verdict"], said.get("reason"), said.get("message"))
        case "error":
            return f"error: {escape(event['payload']['message'])}{_hint(event['payload'])}"
        case _:
            return None


def _hint(body: "WarningRaised | Error") -> str:
    """The next step, for codes whose detail is one."""
    detail = body.get("detail") if body["code"] in WITH_HINTS else None
    return f"\nhint: {escape(detail)}" if detail else ""
