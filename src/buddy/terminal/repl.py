"""The REPL: an editor at the bottom, the story above it, and a session in the runtime behind both.

What always holds: the editor is never blocked by what happens; leaving stops nothing; every request that fails is told
and nothing ends for it.
"""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory
from prompt_toolkit.styles import Style as EditorStyle

from buddy.errors import BuddyError, UserError
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired, EventBody
from buddy.terminal import acting
from buddy.terminal.ahead import take_typed
from buddy.terminal.approve import Answer
from buddy.terminal.blocks import error_block
from buddy.terminal.complete import Files, Offering, wants_menu
from buddy.terminal.conversation import CYCLE, Conversation
from buddy.terminal.deadlines import Deadlines
from buddy.terminal.escape import escape, one_line
from buddy.terminal.keys import ESCAPE_SECONDS, bindings, safe_text
from buddy.terminal.looking import prompt_text, toolbar_text
from buddy.terminal.narrate import Narrator
from buddy.terminal.outside import Outside
from buddy.terminal.picker import Picker
from buddy.terminal.questions import Questions
from buddy.terminal.screen import Screen
from buddy.terminal.slash import offered, run_command
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut

TICK = 0.1
MENU_ROWS = 6
OWN = "your command runs; what you send waits for its end (esc ends it)"
GONE = "the runtime is gone; waiting for it (Enter starts it)"
TWICE_SECONDS = 0.8
TRIES = 3
PLAIN_TOOLBAR = EditorStyle.from_dict({"bottom-toolbar": "noreverse"})


class Repl:
    def __init__(
        self,
        talk: Conversation,
        screen: Screen,
        style: Style,
        history: Path,
        answer: Callable[[str], None] | None = None,
    ) -> None:
        """With `answer`, what the model says goes there as it is: stdout is not the terminal."""
        self.talk = talk
        self.style = style
        self.lost = False
        self._screen = screen
        self.narrator = Narrator(talk, style, lambda: screen.columns, screen.above, answer)
        self._outside = Outside(screen, style)
        self._questions = Questions(screen, style, self._decide, self._whole_question, self.interrupt)
        self._escaped_at = 0.0
        self._lines: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._deadlines = Deadlines()
        self._long_questions: dict[str, Event] = {}
        self._session = self._editor(history)
        self._questions.use(self._session.default_buffer)

    def _editor(self, history: Path) -> "PromptSession[str]":
        session: PromptSession[str] = PromptSession(
            message=self._message,
            multiline=True,
            key_bindings=bindings(self),
            history=FileHistory(str(history)),
            completer=Offering(offered(), Files(self.talk.around.root)),
            complete_in_thread=True,
            complete_while_typing=Condition(self._wants_menu),
            reserve_space_for_menu=MENU_ROWS,
            bottom_toolbar=self._toolbar,
            prompt_continuation="  ",
            erase_when_done=True,
            output=self._screen.output,
            style=PLAIN_TOOLBAR,
            tempfile_suffix=".md",
        )
        session.app.timeoutlen = session.app.ttimeoutlen = ESCAPE_SECONDS
        self._screen.show(session.app)
        return session

    async def run(self, first: str | None = None) -> None:
        """Until the person leaves, or the terminal is gone."""
        if first:
            self._session.history.append_string(first)
            self._lines.put_nowait((first, False))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.leave)
        for work in (self._follow(), self._work(), self._tick()):
            self._spawn(work)
        self._session.app.after_render += self._warm_once
        take_typed(self._session.app.input)
        try:
            with contextlib.suppress(EOFError, KeyboardInterrupt):
                await self._session.prompt_async()
        finally:
            loop.remove_signal_handler(signal.SIGTERM)
            self._deadlines.clear()
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
            self._screen.flush()

    def _warm_once(self, _: object) -> None:
        """The prompt is there: now load what the first answer needs, while nobody waits for it."""
        self._session.app.after_render -= self._warm_once
        self._spawn(asyncio.to_thread(_warm))

    # --- what happens -----------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        async for event in self.talk.client.events():
            if self.talk.take(event):
                if event.type == "approval_required" and isinstance(asked := event.body(), ApprovalRequired):
                    self._long_questions[asked.approval_id] = event
                await self.narrator.take(event, self._whole)
                if not self.talk.is_replaying:
                    await self._questions.follow(self.talk.view)
                self._screen.redraw()
            if self.talk.is_replaying:
                await asyncio.sleep(0)  # a long log must not hold the keys
        self.tell(self.style.red("the runtime is gone"))
        self.leave()

    async def _whole(self, event: Event) -> EventBody | None:
        """With what was kept beside it; the story goes on though that cannot be had."""
        for _ in range(TRIES):
            try:
                return await self.talk.around.whole(self.talk.client, event)
            except ConnectionError:
                continue  # the next request waits for the connection
            except BuddyError:
                break
        return event.body()

    async def _whole_question(self, waiting: ApprovalRequired) -> ApprovalRequired:
        event = self._long_questions.pop(waiting.approval_id, None)
        whole = await self._whole(event) if event is not None else None
        return whole if isinstance(whole, ApprovalRequired) else waiting

    def _decide(self, approval_id: str, answer: Answer) -> None:
        self._spawn(self._safely(self.talk.decide(approval_id, answer)))

    async def _tick(self) -> None:
        """The spinner turns while a run is active."""
        while True:
            await asyncio.sleep(TICK)
            if self.talk.active is not None or self.lost:
                self._screen.redraw()

    async def _work(self) -> None:
        """One line after the other."""
        while True:
            line, steer = await self._lines.get()
            await self._safely(self._do(line, steer=steer))

    async def _do(self, line: str, *, steer: bool) -> None:
        if self.lost:
            await self.talk.around.revive()
        if line.startswith("/") and "/" not in line.split(maxsplit=1)[0][1:]:
            await run_command(self, line)
        elif line.startswith("!"):
            await self._run_own(line[1:].strip())
        elif steer and self.talk.active is not None:
            await acting.steer(self, line)
        else:
            said = await self.talk.say(line)
            if said.position:
                self.tell(self.style.dim(f"  queued ({said.position}): {one_line(line, 200)}"))

    async def _run_own(self, command: str) -> None:
        if not command:
            raise UserError("which command?", hint="!cmd runs one of your own here")
        self.tell(f"\n{self.style.green('!')} {escape(command)}")
        await self._outside.run(command, self.talk.facts.root)

    async def _safely(self, work: Awaitable[None]) -> None:
        try:
            await work
        except (BuddyError, OSError) as error:
            self.tell(error_block(error, self.style))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # --- what is drawn ----------------------------------------------------------------------------------------------

    def _message(self) -> ANSI:
        columns, rows = self._screen.columns, self._screen.rows
        lines = self.narrator.tail(columns, rows)
        run = self.talk.view.runs.get(self.talk.active or "")
        if self.lost:
            lines.append(self.style.yellow(cut(GONE, columns - 1)))
        elif self._outside.is_running:
            lines.append(self.style.dim(cut(OWN, columns - 1)))
        elif run is not None:
            lines.append(self.narrator.liveness.line(run, columns, waiting=self._questions.is_waiting))
        lines += self._questions.lines(columns)
        return ANSI("\n".join([*lines, self.style.green(self.style.bold(prompt_text(self.talk.facts.target)))]))

    def _wants_menu(self) -> bool:
        return wants_menu(self._session.default_buffer.document)

    def _toolbar(self) -> ANSI:
        return ANSI(self.style.dim(cut(toolbar_text(self.talk.facts), self._screen.columns - 1)))

    # --- the keys ---------------------------------------------------------------------------------------------------

    @property
    def is_locked(self) -> bool:
        return self._questions.is_locked

    def press(self, key: str) -> None:
        self._questions.press(key)

    def typed(self) -> None:
        self._questions.typed()

    def submit(self, text: str, *, steer: bool) -> None:
        if self._questions.is_commenting:
            self._questions.comment(text)
        elif text.strip():
            if text.startswith("/"):
                self.tell("\n" + self.style.dim(f"> {one_line(text, 200)}"))
            self._lines.put_nowait((text.strip(), steer))
        elif self.lost:
            self._spawn(self._safely(self.talk.around.revive()))

    def escape(self) -> None:
        loop = asyncio.get_running_loop()
        twice = loop.time() - self._escaped_at < TWICE_SECONDS
        self._escaped_at = loop.time()
        if self._questions.is_commenting:
            self._questions.leave_comment()
        elif not self.interrupt() and twice:
            self.go_back()

    def go_back(self) -> None:
        if self.talk.active is None:
            self._spawn(self._safely(acting.go_back(self)))
        else:
            self.interrupt()

    def interrupt(self) -> bool:
        if self._outside.interrupt():
            return True
        if self.talk.active is None:
            return False
        self._spawn(self._safely(self.talk.cancel()))
        return True

    def leave(self) -> None:
        with contextlib.suppress(Exception):  # it may have been left already
            self._session.app.exit(result="")

    def cycle_policy(self) -> None:
        self._spawn(self._safely(self._cycle()))

    async def _cycle(self) -> None:
        await self.talk.set_policy(CYCLE.get(self.talk.facts.policy, "ask"))

    def edit_outside(self) -> None:
        self._spawn(self._edit())

    async def _edit(self) -> None:
        buffer = self._session.default_buffer
        with self._screen.away():
            await buffer.open_in_editor()
        self.put(buffer.text)

    def suspend(self) -> None:
        self._spawn(self._outside.suspend())

    # --- what commands use ------------------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        self._screen.above(text)

    def pick(self, title: str, choices: Sequence[str], chosen: Callable[[int], None], start: int = 0) -> None:
        self._questions.pick(Picker(title, choices, self.style, chosen, start))

    def later(self, line: str) -> None:
        self._lines.put_nowait((line, False))

    def put(self, text: str) -> None:
        self._questions.put(safe_text(text))

    def set_deadline(self, session_id: str, run_id: str, seconds: float) -> None:
        self._deadlines.set(run_id, seconds, lambda: self._overdue(session_id, run_id))
        if run_id == self.talk.active:
            self.narrator.liveness.end_in(seconds)

    def _overdue(self, session_id: str, run_id: str) -> None:
        self._spawn(self._safely(self.talk.client.cancel(session_id, run_id, "timeout")))

    async def switch(self, session_id: str | None) -> None:
        self._questions.reset()
        self.narrator.reset()
        if session_id is None:
            self.talk.leave()
            self.tell(self.style.dim("── a fresh session starts with your next message"))
        else:
            self.tell(self.style.dim(f"── session {session_id}"))
            await self.talk.open(session_id)

    async def run_local(self, command: Sequence[str] | str) -> int:
        return await self._outside.run(command, self.talk.facts.root)

    async def lend_terminal(self, command: Sequence[str]) -> None:
        await self._outside.lend(command)


def _warm() -> None:
    from buddy.terminal.markdown import render_code, render_markdown

    style = Style(on=True)
    render_markdown("`a`", style, 80)
    render_code("a", "python", style)
