"""Running text in a replay: recorded text is clean, and what was held back came out when its stream ended."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from buddy.backends.contract import Run
from buddy.protocol.events import AssistantToken, RunComplete, RunStarted, ThinkingToken
from buddy.replay.replay_cursor import ReplayCursor
from buddy.scrub import Scrubber, Stream


class RecordedScrubber(Scrubber):
    """Changes nothing: whatever was recorded is scrubbed."""

    def __init__(self, cursor: ReplayCursor) -> None:
        super().__init__()
        self._cursor = cursor

    def text(self, text: str) -> str:
        return text

    def registered(self, text: str) -> str:
        return text

    def tree(self, value: Any) -> Any:
        return value

    def stream(self) -> Stream:
        return _RecordedStream(self._cursor)


class _RecordedStream(Stream):
    def __init__(self, cursor: ReplayCursor) -> None:
        self._cursor = cursor

    def feed(self, text: str) -> str:
        return text

    def flush(self) -> str:
        return ""

    def finish(self) -> str:
        entry = self._cursor.at(self._cursor.reached + 1)
        if entry is None or entry[0].type not in ("assistant_token", "thinking_token", "tool_output"):
            return ""
        return str(msgspec.json.decode(entry[0].payload).get("text", ""))


@contextmanager
def open_streams(run: Run, cursor: ReplayCursor) -> Generator[None]:
    """Whatever stops the work of a run: text that was held back until then needs a stream to come out of."""
    try:
        yield
    except BaseException:
        for kind in _held_back(cursor):
            run.stream(kind, "")
        raise


def _held_back(cursor: ReplayCursor) -> list[str]:
    kinds: dict[str, None] = {}
    for event, body in cursor.after(cursor.reached):
        if isinstance(body, RunComplete | RunStarted):
            break
        if isinstance(body, AssistantToken | ThinkingToken):
            kinds[event.type] = None
    return list(kinds)
