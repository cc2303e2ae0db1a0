"""What the demo shows: one line per event that matters, with its seq; plain ASCII words, painted on a terminal.

Invariants: what runs is shown completely before it runs; a piece of text appears when it arrives.
"""

import time
from pathlib import Path

from buddy.cli.demo.checks import Result
from buddy.protocol.envelopes import Event
from buddy.protocol.events import (
    AcceptanceResult,
    ApprovalReceived,
    ApprovalRequired,
    AssistantMessage,
    AssistantToken,
    EventBody,
    RunComplete,
    RunStarted,
    SessionStarted,
    ToolCall,
    ToolClaimed,
    ToolResult,
    UserMessage,
)
from buddy.terminal.escape import escape, one_line
from buddy.terminal.style import Style

_YELLOW = ("approval", "recovered", "unknown")
_GREEN = ("approved", "check", "complete")


class Story:
    def __init__(self, style: Style, pause: float) -> None:
        self._style = style
        self._pause = pause
        self._is_streaming = False
        self._calls: dict[str, str] = {}

    def begin(self, directory: Path) -> None:
        print(self._style.bold("A session that is killed in the middle, comes back and finishes"))
        print(self._style.dim(f"built-in model, no key, no network; everything is in {escape(str(directory))}"))

    def show(self, event: Event) -> None:
        body = event.body()
        match body:
            case None:
                return
            case AssistantToken():
                self._stream(event.seq, escape(body.text))
                return
            case AssistantMessage():
                self._end_stream()
            case ToolCall():
                self._calls[body.call_id or ""] = str(body.args.get("path") or "exit code")
            case _:
                pass
        self._say(event.seq, *self._words(body))

    def killed(self, pid: int) -> None:
        self._end_stream()
        print(self._style.red(f"      -- SIGKILL: process {pid} is gone, in the middle of its command --"), flush=True)
        time.sleep(6 * self._pause)

    def resumed(self, pid: int) -> None:
        print(self._style.bold(f"      -- process {pid} opens the session --"), flush=True)

    def verdict(self, results: list[Result], seconds: float) -> None:
        self._end_stream()
        for text, met in results:
            print(f"{self._style.green('  ok') if met else self._style.red('FAIL')}  {text}")
        count = sum(met for _, met in results)
        paint = self._style.green if count == len(results) else self._style.red
        print(paint(f"{count} of {len(results)} expectations met, in {seconds:.1f} s"), flush=True)

    def _words(self, body: EventBody) -> tuple[str, ...]:
        match body:
            case SessionStarted():
                return "session", body.session_id
            case UserMessage():
                return "you", body.text
            case ApprovalRequired() if body.kind == "write":
                return "approval", f"{body.title}: {body.summary}"
            case ApprovalRequired():
                place = f"in     {body.details.get('cwd')} on {body.details.get('target')}"
                return "approval", body.summary, place, f"digest {body.digest}"
            case ApprovalReceived():
                return "approved" if body.decision == "approve" else "denied", f"by {body.by}"
            case ToolClaimed() | ToolResult():
                return self._call_words(body)
            case RunStarted() if body.recovered:
                return "recovered", "the run continues by itself"
            case AcceptanceResult():
                return "check", f"{body.id}: {'passed' if body.passed else 'failed'}"
            case RunComplete():
                return "complete", body.outcome
            case _:
                return ()

    def _call_words(self, body: ToolClaimed | ToolResult) -> tuple[str, ...]:
        if isinstance(body, ToolClaimed):
            claimed = "claimed", f"{body.call_id}: from here on it may have happened"
            return claimed if body.tier == "privileged" else ()
        if body.structured_error and body.structured_error.type == "UNKNOWN_OUTCOME":
            return "unknown", f"{body.call_id} ended with UNKNOWN_OUTCOME, is not run again, and the model is informed"
        text = body.text.removeprefix("exit code: ") if body.exit_code is not None else body.text
        return body.tool_name, f"{self._calls.get(body.call_id or '', '')}: {one_line(text, 60)}"

    def _say(self, seq: int, word: str = "", text: str = "", *more: str) -> None:
        if not word:
            return
        self._end_stream()
        painted = self._style.yellow if word in _YELLOW else self._style.green if word in _GREEN else str
        print(f"{self._head(seq, word)}{painted(escape(text))}")
        for line in more:
            print(f"{'':6}{self._style.dim(escape(line))}")
        self._flush()

    def _stream(self, seq: int, text: str) -> None:
        if not self._is_streaming:
            self._is_streaming = True
            print(self._head(seq, "model"), end="")
        print(self._style.cyan(text), end="", flush=True)

    def _end_stream(self) -> None:
        if self._is_streaming:
            self._is_streaming = False
            print(flush=True)

    def _head(self, seq: int, word: str) -> str:
        return f"{self._style.dim(f'{seq:>4}')}  {self._style.bold(f'{word:<11}')}"

    def _flush(self) -> None:
        print(end="", flush=True)
        time.sleep(self._pause)
