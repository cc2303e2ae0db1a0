"""Approvals on a terminal: a person's clear yes, or no. Where nobody can be asked, the answer is no at once.

What always holds: what is shown is all that will run; what was typed before the question does not answer it; a question
that was settled elsewhere (a cancel, its time, another client) is let go.
"""

import asyncio
import getpass
import os
import socket
import sys
import termios

from buddy.client.client import Client
from buddy.client.view import View
from buddy.errors import ProtocolError
from buddy.protocol.events import ApprovalRequired
from buddy.protocol.requests import SubmitApproval
from buddy.terminal.escape import escape


class Asking:
    """Told of every change, it has at most one question open."""

    def __init__(self, client: Client, session_id: str, *, person: bool) -> None:
        self._client = client
        self._session_id = session_id
        self._person = person
        self._asked: set[str] = set()
        self._current = ""
        self._task: asyncio.Task[None] | None = None

    def follow(self, view: View) -> None:
        """Let go of what is settled, ask what waits."""
        if self._task is not None:
            if self._current in view.approvals and not self._task.done():
                return
            self._task.cancel()
        waiting = next((found for key, found in view.approvals.items() if key not in self._asked), None)
        if waiting is not None and view.active is not None:
            self._asked.add(waiting.approval_id)
            self._current = waiting.approval_id
            self._task = asyncio.get_running_loop().create_task(self._answer(view.active, waiting, self._task))

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _answer(self, run_id: str, approval: ApprovalRequired, previous: "asyncio.Task[None] | None") -> None:
        if previous is not None:
            await asyncio.wait([previous])
        if self._person:
            approved = await _ask(approval)
            answer = SubmitApproval(self._session_id, run_id, approval.approval_id, "approve" if approved else "deny")
        else:
            answer = SubmitApproval(
                self._session_id, run_id, approval.approval_id, "deny", "nobody is there to be asked", stop=True
            )
        try:
            await self._client.approve(answer)
        except (ProtocolError, ConnectionError) as error:
            print(f"warning: {escape(str(error))}", file=sys.stderr)


async def _ask(approval: ApprovalRequired) -> bool:
    """Nothing but a clear yes is one."""
    command = str(approval.details.get("command") or approval.summary)
    termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    print(f"{getpass.getuser()}@{socket.gethostname()}$ {escape(command)}", file=sys.stderr)
    for key, value in approval.details.items():
        if key != "command" and value not in ("", None, {}, []):
            print(f"  {escape(str(key))}: {escape(str(value))}", file=sys.stderr)
    print("approve? [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return (await _read_line()).strip().lower() in ("y", "yes")
    except asyncio.CancelledError:
        print(file=sys.stderr)
        raise


async def _read_line() -> str:
    """A line from the terminal, without a thread that could not be ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ready.set)
    try:
        await ready.wait()
        return os.read(sys.stdin.fileno(), 4096).decode(errors="replace")
    except OSError:
        return ""  # the terminal is gone
    finally:
        loop.remove_reader(sys.stdin.fileno())
