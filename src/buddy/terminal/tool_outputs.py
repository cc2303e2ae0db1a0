"""The results of tool calls, kept so that one can be shown completely, page by page."""

from collections import deque

from buddy.client.client import Client
from buddy.client.steps import read_blob
from buddy.errors import UserError
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ToolResult
from buddy.terminal.escape import escape, one_line
from buddy.terminal.phrases import plural
from buddy.terminal.style import Style

KEPT = 50
PAGE = 200
"""Lines that are shown at a time."""


class ToolOutputs:
    def __init__(self) -> None:
        self._results: deque[Event] = deque(maxlen=KEPT)
        self._shown = 0
        """The seq of the result that was shown last."""
        self._next = 0

    def add(self, event: Event) -> None:
        self._results.append(event)

    def find(self, number: int) -> Event:
        """The last result is 1, the one before it 2."""
        if not self._results:
            raise UserError("no tool was called yet")
        if not 1 <= number <= len(self._results):
            raise UserError(f"no tool call number {number}; 1 is the last, {len(self._results)} the first that is kept")
        return self._results[-number]

    def page(self, seq: int, lines: list[str], style: Style) -> str:
        """The next lines of this output; its first ones, if another was shown before."""
        start = self._next if seq == self._shown and self._next < len(lines) else 0
        self._shown, self._next = seq, start + PAGE
        shown = [f"    {escape(line)}" for line in lines[start : start + PAGE]]
        left = len(lines) - start - PAGE
        if left > 0:
            shown.append(
                style.dim(f"  … {plural(left, 'more line')}; Ctrl-O or the same command shows the next {PAGE}")
            )
        return "\n".join(shown)


async def read_output(client: Client, session_id: str, result: ToolResult) -> list[str]:
    """The complete output as lines, also where the model was shown only a part of it."""
    text = await client.perform(read_blob(session_id, result.output)) if result.output else result.text
    return text.rstrip("\n").split("\n") if text.strip() else ["(no output)"]


def heading(result: ToolResult, style: Style) -> str:
    return style.dim(f"  ── output of {one_line(result.tool_name, 60)}")
