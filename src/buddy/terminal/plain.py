"""The REPL without a terminal: every line of stdin is a prompt or a command, answered before the next one is read.

What always holds: what the model says goes to stdout as it is (escaped where that is a terminal), everything else to
stderr; nobody is asked who is not there.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import TextIO

from buddy.errors import BuddyError, UserError
from buddy.protocol.codes import EXIT_CODES
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody, RunComplete
from buddy.terminal.blocks import error_block
from buddy.terminal.conversation import Conversation
from buddy.terminal.escape import escape
from buddy.terminal.narrate import Narrator
from buddy.terminal.slash import run_command
from buddy.terminal.style import Style

WIDTH = 80


class PlainRepl:
    def __init__(self, talk: Conversation, style: Style, out: TextIO, err: TextIO) -> None:
        self.talk = talk
        self.style = style
        self._out = out
        self._err = err
        self._narrator = Narrator(talk, style, lambda: WIDTH, self.tell, self._say)
        self._lines: list[str] = []
        self._is_over = False
        self._outcome = "success"

    async def run(self, first: str | None, read_line: Callable[[], str] = sys.stdin.readline) -> int:
        """Until stdin ends; gives the exit code of the last run."""
        if first:
            await self._safely(first)
        while not self._is_over and (line := await asyncio.to_thread(read_line)):
            if line.strip():
                await self._safely(line.strip())
        return EXIT_CODES[self._outcome]

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
        await self._narrator.take(event, self._whole)
        return event.body()

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
