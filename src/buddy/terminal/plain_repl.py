"""The REPL without a terminal, or on a dumb one: each line read is a prompt or a command, answered before the next.

Invariants: the model's replies go to stdout unrendered (escaped if that is a terminal), everything else to stderr; no
escape sequence is written; only a person is asked for approvals, and only an explicit yes approves.
"""

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from buddy.client.bodies import approval_in
from buddy.errors import BuddyError, UserError
from buddy.protocol.codes import EXIT_CODES
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired, EventBody, QuestionAsked, RunComplete, UserMessage
from buddy.terminal.approval_prompt import ApprovalAnswer
from buddy.terminal.blocks import ME, error_block
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.escape import escape
from buddy.terminal.event_renderer import EventRenderer
from buddy.terminal.line_question import END_OF_INPUT, NO, YES, LineQuestion, terminal_size
from buddy.terminal.question_commands import ask_question
from buddy.terminal.settings import TerminalSettings
from buddy.terminal.slash import is_command, is_prepared, run_command
from buddy.terminal.status_line import prompt_text
from buddy.terminal.stdin_lines import StdinLines
from buddy.terminal.style import Style

WIDTH = 80


async def _deny(session: CurrentSession, request: ApprovalRequired) -> None:
    """Nobody is there to be asked; the run continues without it."""
    answer = ApprovalAnswer("deny", comment="nobody is there to be asked")
    with suppress(BuddyError):  # it was decided elsewhere
        await session.decide(request.approval_id, answer)


class PlainRepl:
    """Implements `command_ui.CommandUI`."""

    def __init__(
        self,
        session: CurrentSession,
        settings: TerminalSettings,
        style: Style,
        out: TextIO,
        err: TextIO,
        *,
        has_person: bool = False,
    ) -> None:
        """With a person, there is a prompt to type at, and approvals are asked."""
        self.session = session
        self.settings = settings
        self.style = style
        self.screen = None  # there are only lines
        self._has_person = has_person
        self._out = out
        self._err = err
        self._renderer = EventRenderer(session, settings.display, style, lambda: WIDTH, self.show, self._answer)
        self._input = StdinLines()
        self._queue: list[str] = []
        self._approvals: list[Event] = []
        self._is_interrupted = False
        self._is_over = False
        self._outcome = "success"

    async def run(self, first: str | None) -> int:
        """Run until stdin ends; returns the exit code of the last run."""
        if self._has_person:
            asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        if first:
            await self._run_line(first)
        while not self._is_over and (line := await self._next_line(prompt_text(self.session.facts.target))):
            if line.strip():
                await self._run_line(line.strip())
        return EXIT_CODES[self._outcome]

    async def _next_line(self, prompt: str) -> str:
        if self._has_person:
            print(prompt, end="", file=self._err, flush=True)
        line = await self._input.next()
        if self._has_person and not line:
            self.show("")
        return line

    async def _next_answer(self, prompt: str) -> str:
        """A line that was typed after the question was shown."""
        self._input.set_aside()
        print(prompt, end="", file=self._err, flush=True)
        return await self._input.next(is_answer=True)

    def _interrupt(self) -> None:
        """Ctrl-C cancels the run, and with it an approval; without a run, it ends the program."""
        if self.session.active is None:
            raise KeyboardInterrupt
        self._is_interrupted = True
        self._input.interrupt()
        self._cancelling = asyncio.get_running_loop().create_task(self._cancel())

    async def _cancel(self) -> None:
        try:
            await self.session.cancel()
        except (BuddyError, OSError) as error:
            self.show(error_block(error, self.style))

    async def _run_line(self, line: str) -> None:
        try:
            await self._do(line)
        except (BuddyError, OSError) as error:
            self.show(error_block(error, self.style))
        while self._queue and not self._is_over:
            await self._run_line(self._queue.pop(0))

    async def _do(self, line: str) -> None:
        if is_command(line) and not await is_prepared(self, line):
            await run_command(self, line)
            return
        if self._has_person and line.startswith("!"):  # a line from a pipe may be anybody's
            await self.run_program(line[1:])
            return
        sent = await self.session.send(line, is_typed=self._has_person)
        async for event in self.session.client.events():
            body = await self._handle(event)
            if isinstance(body, RunComplete) and body.run_id == sent.run_id:
                self._outcome = body.outcome
                return
        raise ConnectionResetError("the daemon closed the connection")

    async def _handle(self, event: Event) -> EventBody | None:
        known = set(self.session.view.approvals)
        if not self.session.apply(event):
            return None
        body = event.body()
        is_live = self._has_person and not self.session.is_replaying
        if not (is_live and isinstance(body, UserMessage) and body.by == ME and not body.redacted):  # shown as typed
            await self._renderer.render(event, self.session.access.read_full)
        asked = approval_in(body)
        asked = asked if asked is not None and asked.approval_id not in known else None
        if asked is not None:
            self._approvals.append(event)
        if isinstance(body, QuestionAsked) and not self.session.is_replaying:
            next_line = self._next_answer if self._has_person else None
            await ask_question(
                self.session, body.question_id, next_line, lambda error: self.show(error_block(error, self.style))
            )
        if is_live:
            await self._ask()
        elif not self._has_person and asked is not None and not self.session.is_replaying:
            await _deny(self.session, asked)
        return body

    async def _ask(self) -> None:
        """Ask the person for each pending approval."""
        while self._approvals:
            request = approval_in(await self.session.access.read_full(self._approvals.pop(0)))
            if request is None or request.approval_id not in self.session.view.approvals:
                continue
            question, decision = LineQuestion(request, lambda: terminal_size(self._err)), None
            self._is_interrupted = False
            while decision is None:
                typed = await self._next_answer(question.show())
                is_alone = not typed or not self._input.has_more()
                decision = "deny" if self._is_interrupted else question.answer(typed, is_alone=is_alone)
                if not typed:
                    self.show(f"\n{END_OF_INPUT}")
            try:
                await self.session.decide(request.approval_id, ApprovalAnswer(decision))
            except BuddyError as error:  # it was decided elsewhere
                self.show(error_block(error, self.style))

    def _answer(self, text: str) -> None:
        try:
            print(escape(text) if self._out.isatty() else text, file=self._out, flush=True)
        except OSError as error:  # the reader is gone, or has no space left
            self._is_over, self._queue = True, []
            if not isinstance(error, BrokenPipeError):
                self.show(error_block(error, self.style))

    # --- CommandUI --------------------------------------------------------------------------------------------------

    def show(self, text: str) -> None:
        print(text, file=self._err, flush=True)

    def choose(
        self,
        title: str,
        choices: Sequence[str],
        on_choice: Callable[[int], None],
        start: int = 0,
        *,
        found_by: Sequence[str] | None = None,
    ) -> None:
        del on_choice, start, found_by
        self.show("\n".join([f"{title}:", *(f"  {number}  {escape(text)}" for number, text in enumerate(choices, 1))]))

    async def confirm(self, question: str) -> bool:
        if not self._has_person:
            return True
        while (word := (await self._next_answer(f"{question} [y/N] ")).strip().lower()) not in ("", *NO):
            if word in YES and not self._input.has_more():
                return True
        return False

    def enqueue(self, line: str) -> None:
        self._queue.append(line)

    def set_input(self, text: str) -> None:
        self.show(f"  {escape(text)}")

    def quit(self) -> None:
        self._is_over = True

    async def switch_session(self, session_id: str | None) -> None:
        """Show a session up to the end of its active run."""
        self._renderer.reset()
        if session_id is None:
            self.session.leave()
            return
        await self.session.open(session_id)
        async for event in self.session.client.events():
            await self._handle(event)
            if not self.session.is_replaying and self.session.active is None:
                return

    async def run_program(self, command: Sequence[str] | str, environment: Mapping[str, str] | None = None) -> int:
        words = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=self.session.facts.root,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )
        output, _ = await process.communicate()
        if output:
            self.show(escape(output.decode(errors="replace").rstrip("\n")))
        return await process.wait()

    async def lend_terminal(self, command: Sequence[str]) -> None:
        del command
        raise UserError("/login needs a terminal", hint="run: buddy login")
