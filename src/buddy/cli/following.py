"""A run followed to its end: what it shows, what it asks, what becomes of it.

What always holds: at most one question is open; what was typed before it does not answer it; one that was settled
elsewhere (a cancel, its time, another client) is let go; where nobody can be asked, the answer is no at once.
"""

from __future__ import annotations

import json
import sys

from buddy.cli.report import Report, Seen
from buddy.cli.talk import Talk
from buddy.errors import UserError
from buddy.protocol import pointer
from buddy.terminal.escape import escape, escape_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from buddy.cli.talk import Fields, Steps

CHUNK = 256 * 1024
# Told in their own way, or only there to bind the decision; there is no "always" to be said here.
_SILENT = ("command", "diff", "scripts", "scriptsComplete", "alwaysRule", "sha256", "replaces", "bytes")


class Following:
    """Tell it the session and, once there is one, the run."""

    def __init__(self, talk: Talk, report: Report, *, has_person: bool) -> None:
        self.session_id = ""
        self.run_id: str | None = None
        self.replayed = 0
        self.question = ""  # the approval that a person was asked about and has not answered
        self._talk = talk
        self._report = report
        self._has_person = has_person
        self._runs: dict[str, Seen] = {}
        self._approvals: dict[str, Fields] = {}
        self._active: str | None = None
        self._asked: set[str] = set()

    def until_complete(self) -> Steps[int]:
        """Show what happens until the run is complete; without a run, until the log is told. Gives the exit code.

        A runtime that is gone for good leaves the run where it is: that is no outcome.
        """
        while (found := (yield from self._talk.next_event())) is not None:
            event, line = found
            self._report.event(event, line)
            self._fold(event)
            yield from self._complete(event)
            if self._is_over(event):
                break
            if event["seq"] >= self.replayed:
                self._ask_next()
            self._complain()
        else:
            hint = f"buddy resume {self.session_id} goes on with it"
            raise UserError("the daemon is gone, and the run is not over", hint=hint, exit_code=75)
        run = self._runs.get(self.run_id or "") or next(reversed(self._runs.values()), None)
        if run is None:
            raise UserError(f"{self.session_id} has no run to go on with", hint='start one: buddy exec "…"')
        return self._report.finish(self.session_id, run)

    def answer(self, typed: str) -> None:
        """What a person typed while a question was open: nothing but a clear yes is one."""
        approved = typed.strip().lower() in ("y", "yes")
        self._decide(self.question, {"decision": "approve" if approved else "deny"})
        self.question = ""
        self._ask_next()

    def _fold(self, event: Fields) -> None:
        payload: Fields = event["payload"]
        match event["type"]:
            case "approval_required":
                self._approvals[payload["approvalId"]] = payload
            case "approval_received" | "approval_expired":
                self._approvals.pop(payload["approvalId"], None)
            case "run_started":
                self._active = payload["runId"]
            case "run_complete":
                self._active = None
                self._approvals.clear()
            case "session_snapshot":
                self._active = payload.get("activeRunId")
            case _:
                pass
        if run_id := event.get("runId"):
            self._runs.setdefault(run_id, Seen(run_id)).take(event)

    def _is_over(self, event: Fields) -> bool:
        if self.run_id is None:
            # A recovered run may be over before it could be asked for: its events say so.
            return event["seq"] >= self.replayed and self._active is None
        return event["type"] == "run_complete" and event.get("runId") == self.run_id

    def _complete(self, event: Fields) -> Steps[None]:
        """A long answer is in its event with the beginning alone, and so is what a person decides about."""
        payload: Fields = event["payload"]
        blobs: dict[str, str] = payload.get("blobs") or {}
        if event["type"] == "assistant_message" and "/text" in blobs:
            self._runs[event["runId"]].text = yield from self._read(event["sessionId"], blobs["/text"])
        elif event["type"] == "approval_required" and self._has_person:
            for path, blob in blobs.items():
                text = yield from self._read(event["sessionId"], blob)
                is_text = isinstance(pointer.get(payload, path), str)
                pointer.put(payload, path, text if is_text else json.loads(text))

    def _read(self, session_id: str, blob: str) -> Steps[str]:
        """A kept text in chunks; a character that a chunk cuts is asked for again."""
        parts: list[str] = []
        offset, total = 0, 1
        while offset < total:
            wish = {"blob": blob, "offset": offset, "limit": CHUNK}
            reply = yield from self._talk.ask("read_blob", wish, session_id)
            total = reply["total"]
            is_last = offset + CHUNK >= total
            text: str = reply["text"] if is_last else reply["text"].rstrip("\ufffd") or reply["text"]
            parts.append(text)
            offset = total if is_last or not text else offset + len(text.encode())
        return "".join(parts)

    def _ask_next(self) -> None:
        if self.question in self._approvals:
            return
        if self.question:
            print(file=sys.stderr)
            self.question = ""
        waiting = next((key for key in self._approvals if key not in self._asked), None)
        if waiting is None or self._active is None:
            return
        self._asked.add(waiting)
        if self._has_person:
            _show(self._approvals[waiting])
            self.question = waiting
        else:
            self._decide(waiting, {"decision": "deny", "comment": "nobody is there to be asked", "stop": True})

    def _decide(self, approval_id: str, decision: Fields) -> None:
        place = {"sessionId": self.session_id, "runId": self._active, "approvalId": approval_id}
        self._talk.tell("submit_approval", {**place, **decision}, is_owed=True)

    def _complain(self) -> None:
        while self._talk.refusals:
            print(f"warning: {escape(self._talk.refusals.pop(0))}", file=sys.stderr)


def _show(approval: Fields) -> None:
    """All that will run."""
    import getpass
    import socket
    import termios

    details: Fields = approval["details"]
    who, command = f"{getpass.getuser()}@{socket.gethostname()}$", details.get("command")
    what = f"{who} {command}" if command else f"{approval['title']}: {approval['summary']}"
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    print(escape_all(what), file=sys.stderr)
    for key, value in details.items():
        if key not in _SILENT and value not in ("", None, {}, [], False, True):
            print(f"  {escape(key)}: {escape_all(str(value))}", file=sys.stderr)
    if details.get("scripts"):
        print(f"  runs what is in: {escape_all(', '.join(details['scripts']))}", file=sys.stderr)
    if details.get("scriptsComplete") is False:
        print("  it may run scripts that could not be read", file=sys.stderr)
    if details.get("diff"):
        print(escape_all(details["diff"].rstrip("\n")), file=sys.stderr)
    print("approve? [y/N] ", end="", file=sys.stderr, flush=True)
