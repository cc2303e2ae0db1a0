"""Lines that were typed, run one after the other: commands, shell commands, messages."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from buddy.errors import UserError
from buddy.terminal import change_commands
from buddy.terminal.command_ui import CommandUI
from buddy.terminal.escape import escape, one_line
from buddy.terminal.slash import is_command, is_prepared, run_command
from buddy.terminal.tasks import BackgroundTasks


class InputLine(Struct, frozen=True):
    text: str
    steer: bool = False


class LineRunner:
    def __init__(
        self,
        ui: CommandUI,
        queue: "asyncio.Queue[InputLine]",
        tasks: BackgroundTasks,
        is_connection_lost: Callable[[], bool],
    ) -> None:
        self._ui = ui
        self._queue = queue
        self._tasks = tasks
        self._is_connection_lost = is_connection_lost

    async def run(self) -> None:
        while True:
            await self._tasks.show_failure(self._do(await self._queue.get()))

    async def _do(self, line: InputLine) -> None:
        ui = self._ui
        if self._is_connection_lost():
            await ui.settings.buddy.restart_daemon()
        if is_command(line.text) and not await is_prepared(ui, line.text):
            await run_command(ui, line.text)
        elif line.text.startswith("!"):
            await self._run_program(line.text[1:].strip())
        elif line.steer and ui.session.active is not None and not is_command(line.text):
            await change_commands.steer(ui, line.text)
        else:
            sent = await ui.session.send(line.text)
            if sent.position:
                ui.show(ui.style.dim(f"  queued ({sent.position}): {one_line(line.text, 200)}"))

    async def _run_program(self, command: str) -> None:
        if not command:
            raise UserError("no command given", hint="!cmd runs a shell command in the workspace")
        self._ui.show(f"\n{self._ui.style.green('!')} {escape(command)}")
        await self._ui.run_program(command)
