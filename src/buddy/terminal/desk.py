"""What a slash command may use: the conversation, and the ways to show, ask, and leave."""

from collections.abc import Callable, Sequence
from typing import Protocol

from buddy.terminal.conversation import Conversation
from buddy.terminal.style import Style


class Desk(Protocol):
    @property
    def talk(self) -> Conversation: ...

    @property
    def style(self) -> Style: ...

    def tell(self, text: str) -> None:
        """Show lines that are escaped already."""
        ...

    def pick(self, title: str, choices: Sequence[str], chosen: Callable[[int], None], start: int = 0) -> None:
        """Let one be chosen; where nobody can, show them."""
        ...

    def later(self, line: str) -> None:
        """Have a line done as if it had been typed."""
        ...

    def put(self, text: str) -> None:
        """Put a text into the input, to be changed and sent."""
        ...

    def leave(self) -> None: ...

    def set_deadline(self, session_id: str, run_id: str, seconds: float) -> None: ...

    async def switch(self, session_id: str | None) -> None:
        """Go on in another session, or in a fresh one."""
        ...

    async def run_local(self, command: Sequence[str] | str) -> int:
        """Run a program here and show its output, escaped; gives its exit code."""
        ...

    async def lend_terminal(self, command: Sequence[str]) -> None:
        """Let one of our own programs have the terminal until it ends."""
        ...
