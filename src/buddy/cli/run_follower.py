"""Follows a run to its end: shows its events, asks for its approvals, returns its exit code.

Invariants: at most one question is open; keys typed before it do not answer it, nor does a text; one that was decided
elsewhere (a cancel, a timeout, another client) is withdrawn; without a person, nothing is waited for without a
deadline, and nothing is denied that somebody else was asked.
"""

import os
import sys
import time
from typing import TYPE_CHECKING, Literal

from buddy.cli.form_questions import FormQuestions
from buddy.cli.report import Report
from buddy.client.blocking import BlockingClient
from buddy.client.core import Fields
from buddy.client.steps import read_full
from buddy.client.view import View
from buddy.errors import ProtocolError, RunLeft, UserError
from buddy.protocol.basics import NO_EXPIRY
from buddy.terminal.approval_screen import Asked
from buddy.terminal.escape import escape
from buddy.terminal.line_question import END_OF_INPUT, LineQuestion, is_readable, terminal_size
from buddy.terminal.phrases import format_deadline

if TYPE_CHECKING:
    from buddy.protocol.json_events import ApprovalRequired, JsonEvent

STDIN = 0

Unattended = Literal["deny", "park", "continue", "watch"]
"""What becomes of a question without a person, by the kind of run.

- `deny`: this command started it, so there is nobody else.
- `park`: the same, but questions may wait: the run is left until one is decided.
- `continue`: it was interrupted, and continues in this process. What somebody was asked before, or can be asked
  without a deadline, is left open, and the run with it.
- `watch`: others can answer. It is waited for, but not without a deadline.
"""


class RunFollower:
    def __init__(
        self,
        client: BlockingClient,
        report: Report,
        session_id: str,
        run_id: str | None,
        *,
        has_person: bool,
        policy: str = "",
        unattended: Unattended = "deny",
    ) -> None:
        """`policy` is the session's, if its start is not among the events that are followed."""
        self._client = client
        self._report = report
        self._session_id = session_id
        self._run_id = run_id
        self._has_person = has_person
        self._unattended: Unattended = unattended
        self._view = View()
        self._question = ""  # the approval that a person was asked about and has not answered
        self._screen: LineQuestion | None = None
        self._ticked = ""  # what was drawn over the question last
        self._asked: set[str] = set()
        self._policy, self._run_policy = policy, ""
        self._begun_at = 0  # when the run was started, or continued, last
        self._asked_at: dict[str, int] = {}
        self._questions = FormQuestions(client, session_id, self._view, has_person=has_person)
        self._questions.declines = unattended != "watch"

    def follow(self, replayed: int = 0) -> int:
        """Follow until the run is complete, or without a run until `replayed`; returns the exit code.

        Losing the runtime for good is an error, not an outcome: the run can still be resumed.
        """
        for event, line in self._client.events():
            if event["sessionId"] != self._session_id:
                self._follow_child(event, line)
                continue
            if self._report.event(event, line) and self._screen is not None:
                self._show(self._screen)  # what was printed pushed the question up
            self._read_long_text(event)
            self._view.apply(event)
            self._check_present(event)
            self._note_policy(event)
            self._note_time(event)
            if self._is_over(event, replayed):
                return self._finish()
            if event["seq"] >= replayed:
                self._ask_next()
                self._questions.ask_next(is_busy=bool(self._question))
        raise UserError(
            "lost the connection to the daemon before the run ended",
            hint=f"resume it with: buddy resume {self._session_id}",
            exit_code=75,
        )

    def _follow_child(self, event: "JsonEvent", line: bytes) -> None:
        """A question of a sub-agent, or what became of one."""
        self._report.event(event, line)
        self._read_long_text(event)
        self._note_time(event)
        if self._view.apply_to_child(event):
            self._ask_next()
            self._questions.ask_next(is_busy=bool(self._question))

    def _check_present(self, event: "JsonEvent") -> None:
        """A log that was restored from a backup may not have the run."""
        is_seen = self._run_id in self._view.runs
        if is_seen and event["type"] == "session_snapshot" and self._view.active != self._run_id:
            hint = "the log was replaced by an older one, or pruned: see buddy session show"
            raise UserError(f"{self._session_id} has no run {self._run_id} any more", hint=hint, exit_code=75)

    def _is_over(self, event: "JsonEvent", replayed: int) -> bool:
        if self._run_id is None:
            # A recovered run may end before we could ask for it; its events show that.
            return event["seq"] >= replayed and self._view.active is None
        return event["type"] == "run_complete" and event["runId"] == self._run_id

    def _finish(self) -> int:
        runs = self._view.runs
        run = runs.get(self._run_id or "") or next(reversed(runs.values()), None)
        if run is None:
            raise UserError(f"{self._session_id} has no run to continue", hint='start one: buddy exec "…"')
        return self._report.finish(self._session_id, run)

    def _read_long_text(self, event: "JsonEvent") -> None:
        """Long answers and approval requests are only previewed in their events: read the full text."""
        match event["type"]:
            case "assistant_message" if "/text" in (event["payload"].get("blobs") or {}):
                self._client.perform(read_full(event["sessionId"], event["payload"]))
            case "approval_required" | "session_snapshot" if self._has_person:
                self._client.perform(read_full(event["sessionId"], event["payload"]))
            case _:
                pass

    def _note_policy(self, event: "JsonEvent") -> None:
        """With `auto`, the run goes on without what nobody can approve; a run may have a policy of its own."""
        match event["type"]:
            case "session_started":
                self._policy = (event["payload"].get("options") or {}).get("approvalPolicy") or ""
            case "run_started":
                self._begun_at = event["ts"]
                self._run_policy = event["payload"]["options"].get("approvalPolicy") or ""
            case "approval_policy_changed":
                self._policy = event["payload"]["policy"]
            case _:
                pass

    def _note_time(self, event: "JsonEvent") -> None:
        if event["type"] == "approval_required":
            self._asked_at[event["payload"]["approvalId"]] = event["ts"]

    # --- questions --------------------------------------------------------------------------------------------------

    def _ask_next(self) -> None:
        approvals = self._view.approvals
        if self._question in approvals:
            return
        if self._question:
            print(file=sys.stderr)
            self._close_question()
        waiting = next((key for key in approvals if key not in self._asked), None)
        if waiting is None or self._view.active is None:
            return
        self._asked.add(waiting)
        if self._has_person:
            self._question = waiting
            asked = approvals[waiting]
            self._screen = LineQuestion(_asked(asked), _size, prompt=_shell_prompt(), expires_at=asked["expiresAt"])
            self._show(self._screen)
            self._report.while_asking = self._tick
            self._client.watched[STDIN] = self._read_answer
        else:
            self._do_without(approvals[waiting])

    def _do_without(self, asked: "ApprovalRequired") -> None:
        approval_id = asked["approvalId"]
        decide = f"buddy approvals show|approve|deny {approval_id}"
        if self._is_left_open(asked):
            state = "parked: waiting" if self._unattended == "park" else "waiting"
            hint = f"decide with: {decide}; then buddy resume {self._session_id} follows the run"
            raise RunLeft(f"{state} for approval to {escape(asked['title'])}", hint=hint, exit_code=75)
        if self._unattended == "watch":
            left = format_deadline(asked["expiresAt"], time.time())
            print(f"waiting for somebody to decide with {decide} ({left})", file=sys.stderr)
            return
        stop = (self._run_policy or self._policy) != "auto"
        self._decide(approval_id, {"decision": "deny", "comment": "nobody is there to be asked", "stop": stop})

    def _is_left_open(self, asked: "ApprovalRequired") -> bool:
        match self._unattended:
            case "deny":
                return False
            case "park":
                return True
            case "continue":
                is_older = self._asked_at.get(asked["approvalId"], 0) < self._begun_at
                return is_older or asked["expiresAt"] >= NO_EXPIRY
            case "watch":
                return asked["expiresAt"] >= NO_EXPIRY

    def _read_answer(self) -> None:
        """A person typed something while a question was open: only an explicit yes approves, or no denies."""
        try:
            typed = os.read(STDIN, 4096).decode(errors="replace")
        except OSError:
            typed = ""  # the terminal is gone
        is_alone = not typed or not is_readable(STDIN)
        decision = self._screen.answer(typed, is_alone=is_alone) if self._screen is not None else "deny"
        if decision is None and self._screen is not None:
            self._show(self._screen)
            return
        if not typed:
            print(f"\n{END_OF_INPUT}", file=sys.stderr)
        self._decide(self._question, {"decision": decision})
        self._close_question()
        self._ask_next()
        self._questions.ask_next(is_busy=bool(self._question))

    def _show(self, question: LineQuestion) -> None:
        """Show a page; what was typed before it does not answer it."""
        import termios

        termios.tcflush(STDIN, termios.TCIFLUSH)
        print(question.show(), end="", file=sys.stderr, flush=True)

    def _tick(self) -> None:
        """Update the time that is left to answer."""
        text = self._screen.tick() if self._screen is not None else ""
        if text != self._ticked:
            self._ticked = text
            print(text, end="", file=sys.stderr, flush=True)

    def _close_question(self) -> None:
        self._question, self._screen = "", None
        self._client.watched.pop(STDIN, None)

    def _decide(self, approval_id: str, decision: Fields) -> None:
        session_id, run_id = self._view.place_of(approval_id)
        session_id = session_id or self._session_id
        place = {"sessionId": session_id, "runId": run_id or self._view.active, "approvalId": approval_id}
        self._client.tell("submit_approval", {**place, **decision}, session_id, _warn)


def _warn(refusal: ProtocolError) -> None:
    print(f"warning: {escape(refusal.message)}", file=sys.stderr)


def _asked(approval: "ApprovalRequired") -> Asked:
    return Asked(approval["title"], approval["summary"], approval["details"], approval.get("agent"))


def _size() -> tuple[int, int]:
    return terminal_size(sys.stderr)


def _shell_prompt() -> str:
    import getpass
    import socket

    return f"{getpass.getuser()}@{socket.gethostname()}$ "
