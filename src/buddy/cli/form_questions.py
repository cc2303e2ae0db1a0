"""Questions of servers in `exec` and `attach`: asked at the terminal, one line each; without a person they are
declined, but in a run that somebody else started, the command ends.

Invariants: one is open at a time, and never beside an approval; an empty line and the end of the input decline; what
does not fit is asked again; what was typed before a question does not answer it.
"""

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from buddy.client.core import Fields
from buddy.client.view import View
from buddy.errors import ProtocolError, RunLeft
from buddy.terminal.escape import escape

if TYPE_CHECKING:
    from buddy.protocol.json_events import QuestionAsked

STDIN = 0


class WatchedInput(Protocol):
    """What is called when a file descriptor can be read."""

    def __setitem__(self, fd: int, read: Callable[[], None], /) -> None: ...

    def pop(self, fd: int, default: None, /) -> object: ...


class Asking(Protocol):
    """A connection that sends answers, and a terminal that they are typed at."""

    @property
    def watched(self) -> WatchedInput: ...

    def tell(
        self, kind: str, payload: Fields, session_id: str, on_refusal: Callable[[ProtocolError], None]
    ) -> None: ...


class FormQuestions:
    def __init__(self, client: Asking, session_id: str, view: View, *, has_person: bool) -> None:
        self._client = client
        self._session_id = session_id
        self._view = view
        self._has_person = has_person
        self.declines = True
        self._asked: set[str] = set()
        self._open: QuestionAsked | None = None

    def ask_next(self, *, is_busy: bool) -> None:
        """Ask the next question; close the open one if it was answered elsewhere."""
        if self._open is not None and self._open["questionId"] not in self._view.questions:
            self._close()
        if self._open is not None or is_busy:
            return
        found = next((one for key, one in self._view.questions.items() if key not in self._asked), None)
        if found is None:
            return
        self._asked.add(found["questionId"])
        if not self._has_person:
            self._do_without(found)
            return
        self._open = found
        _drop_typed()
        self._client.watched[STDIN] = self._read
        self._prompt()

    def _do_without(self, found: "QuestionAsked") -> None:
        if not self.declines:
            hint = f"answer it in: buddy attach {found.get('sessionId') or self._session_id}"
            raise RunLeft(f"waiting for the answer to a question of {escape(found['source'])}", hint, exit_code=75)
        self._answer(found, {"action": "decline"})

    def _prompt(self) -> None:
        from buddy.terminal.question_text import answer_form

        asked = self._open
        if asked is not None:
            how = "Enter once you have opened it, n to decline" if asked["mode"] == "url" else answer_form(asked)
            empty = "" if asked["mode"] == "url" else "; an empty line declines"
            print(f"answer ({how}{empty}): ", end="", file=sys.stderr, flush=True)

    def _read(self) -> None:
        from buddy.protocol.forms import read_answer
        from buddy.terminal.question_text import schema_of

        asked = self._open
        try:
            typed = os.read(STDIN, 65536).decode(errors="replace")
        except OSError:
            typed = ""  # the terminal is gone
        if asked is None:
            return
        text = typed.strip()
        if asked["mode"] == "url":
            is_declined = not typed or text.lower() in ("n", "no")
            self._answer(asked, {"action": "decline" if is_declined else "accept"})
        elif not text:
            self._answer(asked, {"action": "decline"})
        else:
            try:
                self._answer(asked, {"action": "accept", "answer": read_answer(schema_of(asked), text)})
            except ValueError as error:
                print(f"error: {escape(str(error))}", file=sys.stderr)
                self._prompt()
                return
        self._close()

    def _close(self) -> None:
        self._open = None
        self._client.watched.pop(STDIN, None)

    def _answer(self, asked: "QuestionAsked", answer: Fields) -> None:
        payload = {"questionId": asked["questionId"], **answer}
        self._client.tell("answer_question", payload, asked.get("sessionId") or self._session_id, _warn)


def _drop_typed() -> None:
    """Lines typed before a question do not answer it."""
    import termios

    with suppress(termios.error):  # not a terminal
        termios.tcflush(STDIN, termios.TCIFLUSH)


def _warn(refusal: ProtocolError) -> None:
    if refusal.code != "APPROVAL_NOT_FOUND":  # it was answered elsewhere
        print(f"warning: {escape(refusal.message)}", file=sys.stderr)
