"""What a slash command may use: the session, and ways to show, ask and quit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from buddy.terminal.current_session import CurrentSession
from buddy.terminal.settings import TerminalSettings
from buddy.terminal.style import Style


class OwnScreen(Protocol):
    """A terminal that can do more than show lines."""

    @property
    def columns(self) -> int: ...

    def clear(self) -> None: ...

    def send(self, sequence: str) -> None:
        """Send a sequence of our own to the terminal."""
        ...


class CommandUI(Protocol):
    @property
    def screen(self) -> OwnScreen | None: ...

    @property
    def session(self) -> CurrentSession: ...

    @property
    def settings(self) -> TerminalSettings: ...

    @property
    def style(self) -> Style: ...

    def show(self, text: str) -> None:
        """Show lines that are already escaped."""
        ...

    def choose(
        self,
        title: str,
        choices: Sequence[str],
        on_choice: Callable[[int], None],
        start: int = 0,
        *,
        found_by: Sequence[str] | None = None,
    ) -> None:
        """Ask for one of the choices; without a terminal, only list them. With `found_by`, a text for each choice, what
        is typed narrows the list down."""
        ...

    async def confirm(self, question: str) -> bool:
        """Ask for a yes; without a person, the line itself is one."""
        ...

    def enqueue(self, line: str) -> None:
        """Run a line as if it had been typed."""
        ...

    def set_input(self, text: str) -> None:
        """Put a text into the input line, ready to be edited and sent."""
        ...

    def quit(self) -> None: ...

    async def switch_session(self, session_id: str | None) -> None:
        """Continue in another session, or in a new one."""
        ...

    async def run_program(self, command: Sequence[str] | str, environment: Mapping[str, str] | None = None) -> int:
        """Run a program here and show its output, escaped; returns its exit code."""
        ...

    async def lend_terminal(self, command: Sequence[str]) -> None:
        """Give the terminal to one of our own programs until it exits."""
        ...
