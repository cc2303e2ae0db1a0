"""The REPL without a terminal, or on one that only shows lines: each that is read is a prompt or a command, answered
before the next one.

What always holds: what the model says goes to stdout as it is (escaped where that is a terminal), everything else to
stderr; no escape sequence is written; nobody is asked who is not there, and only a clear yes is one.
"""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TextIO

from buddy.errors import BuddyError, UserError
from buddy.protocol.codes import EXIT_CODES
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired, EventBody, RunComplete, UserMessage
from buddy.terminal.approve import Answer, Approval
from buddy.terminal.blocks import error_block
from buddy.terminal.conversation import Conversation
from buddy.terminal.escape import escape
from buddy.terminal.looking import prompt_text
from buddy.terminal.narrate import Narrator
from buddy.terminal.slash import run_command
from buddy.terminal.style import Style

WIDTH = 80
ME = "cli"


class PlainRepl:
    def __init__(self, talk: Conversation, style: Style, out: TextIO, err: TextIO, *, has_person: bool = False) -> None:
        """With a person, there is a prompt to type at, and questions are asked."""
        self.talk = talk
        self._has_person = has_person
        self._read_line: Callable[[], str] = sys.stdin.readline
        self.style = style
        self._out = out
        self._err = err
        self._narrator = Narrator(talk, style, lambda: WIDTH, self.tell, self._say)
        self._lines: list[str] = []
        self._asking: list[Event] = []
        self._line: asyncio.Future[str] | None = None
        self._interrupted: asyncio.Future[None] | None = None
        self._is_over = False
        self._outcome = "success"

    async def run(self, first: str | None) -> int:
        """Until stdin ends; gives the exit code of the last run."""
        if self._has_person:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        if first:
            await self._safely(first)
        while not self._is_over and (line := await self._next_line(prompt_text(self.talk.facts.target))):
            if line.strip():
                await self._safely(line.strip())
        return EXIT_CODES[self._outcome]

    async def _next_line(self, prompt: str) -> str:
        """What is typed next; an empty line where an interrupt came first, and the line is then still to come."""
        if self._has_person:
            print(prompt, end="", file=self._err, flush=True)
        loop = asyncio.get_running_loop()
        line = self._line = self._line or self._read()
        self._interrupted = loop.create_future()
        await asyncio.wait((line, self._interrupted), return_when=asyncio.FIRST_COMPLETED)
        if not line.done():
            return "\n"
        self._line = None
        if self._has_person and not line.result():
            self.tell("")
        return line.result()

    def _read(self) -> "asyncio.Future[str]":
        """Read a line in a thread that nobody waits for: an interrupt ends us though none comes."""
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str] = loop.create_future()

        def read() -> None:
            text = self._read_line()
            with contextlib.suppress(RuntimeError):  # the loop is closed: we were left
                loop.call_soon_threadsafe(line.set_result, text)

        threading.Thread(target=read, daemon=True).start()
        return line

    def _interrupt(self) -> None:
        """Ctrl-C ends the run, and with it a question; where there is none, us."""
        if self.talk.active is None:
            raise KeyboardInterrupt
        if self._interrupted is not None and not self._interrupted.done():
            self._interrupted.set_result(None)
        self._cancelling = asyncio.get_running_loop().create_task(self._cancel())

    async def _cancel(self) -> None:
        try:
            await self.talk.cancel()
        except (BuddyError, OSError) as error:
            self.tell(error_block(error, self.style))

    async def follow_active(self) -> None:
        """Show what was attached to, up to its end."""
        async for event in self.talk.client.events():
            await self._take(event)
            if not self.talk.is_replaying and self.talk.active is None:
                return

    async def _safely(self, line: str) -> None:
        try:
            await self._do(line)
        except (BuddyError, OSError) as error:
            self.tell(error_block(error, self.style))
        while self._lines and not self._is_over:
            await self._safely(self._lines.pop(0))

    async def _do(self, line: str) -> None:
        if line.startswith("/") and "/" not in line.split(maxsplit=1)[0][1:]:
            await run_command(self, line)
            return
        if self._has_person and line.startswith("!"):  # a line of a pipe may be anybody's
            await self.run_local(line[1:])
            return
        said = await self.talk.say(line)
        async for event in self.talk.client.events():
            body = await self._take(event)
            if isinstance(body, RunComplete) and body.run_id == said.run_id:
                self._outcome = body.outcome
                return
        raise ConnectionResetError("the runtime is gone")

    async def _take(self, event: Event) -> EventBody | None:
        if not self.talk.take(event):
            return None
        body = event.body()
        is_live = self._has_person and not self.talk.is_replaying
        if not (is_live and isinstance(body, UserMessage) and body.by == ME):  # it stands where it was typed
            await self._narrator.take(event, self._whole)
        if isinstance(body, ApprovalRequired):
            self._asking.append(event)
        if is_live:
            await self._ask()
        return body

    async def _ask(self) -> None:
        """Put the questions that wait to the person."""
        while self._asking:
            asked = await self._whole(self._asking.pop(0))
            if not isinstance(asked, ApprovalRequired) or asked.approval_id not in self.talk.view.approvals:
                continue
            self.tell(Approval(asked, self.style).block(WIDTH, whole=True))
            yes = (await self._next_line("approve? [y/N] ")).strip().lower() in ("y", "yes")
            try:
                await self.talk.decide(asked.approval_id, Answer("approve" if yes else "deny"))
            except BuddyError as error:  # it was settled elsewhere
                self.tell(error_block(error, self.style))

    async def _whole(self, event: Event) -> EventBody | None:
        return await self.talk.around.whole(self.talk.client, event)

    def _say(self, text: str) -> None:
        try:
            print(escape(text) if self._out.isatty() else text, file=self._out, flush=True)
        except OSError as error:  # whoever read the answers is gone, or has no room for them
            self._is_over, self._lines = True, []
            if not isinstance(error, BrokenPipeError):
                self.tell(error_block(error, self.style))

    # --- what commands use ------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        print(text, file=self._err, flush=True)

    def pick(self, title: str, choices: Sequence[str], chosen: Callable[[int], None], start: int = 0) -> None:
        del chosen, start
        self.tell("\n".join([f"{title}:", *(f"  {number}  {escape(text)}" for number, text in enumerate(choices, 1))]))

    def later(self, line: str) -> None:
        self._lines.append(line)

    def put(self, text: str) -> None:
        self.tell(f"  {escape(text)}")

    def leave(self) -> None:
        self._is_over = True

    def set_deadline(self, session_id: str, run_id: str, seconds: float) -> None:
        del session_id, run_id, seconds
        raise UserError("a timeout needs a terminal", hint="start with --max-time DURATION")

    async def switch(self, session_id: str | None) -> None:
        self._narrator.reset()
        if session_id is None:
            self.talk.leave()
            return
        await self.talk.open(session_id)
        await self.follow_active()

    async def run_local(self, command: Sequence[str] | str) -> int:
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        process = await asyncio.create_subprocess_exec(
            *words, cwd=self.talk.facts.root, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        if output:
            self.tell(escape(output.decode(errors="replace").rstrip("\n")))
        return await process.wait()

    async def lend_terminal(self, command: Sequence[str]) -> None:
        del command
        raise UserError("this needs a terminal", hint="buddy login")
