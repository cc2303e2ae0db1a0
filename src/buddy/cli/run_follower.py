"""Follows a run to its end: shows its events, asks for its approvals, returns its exit code.

Invariants: at most one question is open; keys typed before it do not answer it, nor does a text; one that was decided
elsewhere (a cancel, a timeout, another client) is withdrawn; if nobody can answer, deny immediately, or leave the
question to be decided later if the run is parked.
"""

import os
import sys
from typing import TYPE_CHECKING

from buddy.cli.form_questions import FormQuestions
from buddy.cli.report import Report
from buddy.client.blocking import BlockingClient
from buddy.client.core import Fields
from buddy.client.steps import read_full
from buddy.client.view import View
from buddy.errors import ProtocolError, UserError
from buddy.terminal.approval_screen import Asked
from buddy.terminal.escape import escape
from buddy.terminal.line_question import END_OF_INPUT, LineQuestion, is_readable, terminal_size

if TYPE_CHECKING:
    from buddy.protocol.json_events import ApprovalRequired, JsonEvent

STDIN = 0


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
    ) -> None:
        """`policy` is the session's, if its start is not among the events that are followed."""
        self.parks = False
        self._client = client
        self._report = report
        self._session_id = session_id
        self._run_id = run_id
        self._has_person = has_person
        self._view = View()
        self._question = ""  # the approval that a person was asked about and has not answered
        self._screen: LineQuestion | None = None
        self._ticked = ""  # what was drawn over the question last
        self._asked: set[str] = set()
        self._policy, self._run_policy = policy, ""
        self._questions = FormQuestions(client, session_id, self._view, has_person=has_person)

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
            self._note_policy(event)
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
        if self._view.apply_to_child(event):
            self._ask_next()
            self._questions.ask_next(is_busy=bool(self._question))

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
            case "approval_required" if self._has_person:
                self._client.perform(read_full(event["sessionId"], event["payload"]))
            case _:
                pass

    def _note_policy(self, event: "JsonEvent") -> None:
        """With `auto`, the run goes on without what nobody can approve; a run may have a policy of its own."""
        match event["type"]:
            case "session_started":
                self._policy = (event["payload"].get("options") or {}).get("approvalPolicy") or ""
            case "run_started":
                self._run_policy = event["payload"]["options"].get("approvalPolicy") or ""
            case "approval_policy_changed":
                self._policy = event["payload"]["policy"]
            case _:
                pass

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
        elif self.parks:
            raise _parked(self._session_id, approvals[waiting]["approvalId"], approvals[waiting]["title"])
        else:
            stop = (self._run_policy or self._policy) != "auto"
            self._decide(waiting, {"decision": "deny", "comment": "nobody is there to be asked", "stop": stop})

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


def _parked(session_id: str, approval_id: str, title: str) -> UserError:
    decide = f"buddy approvals show|approve|deny {approval_id}"
    return UserError(
        f"parked: waiting for approval to {escape(title)}",
        hint=f"decide with: {decide}; then buddy resume {session_id} follows the run",
        exit_code=75,
    )


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
