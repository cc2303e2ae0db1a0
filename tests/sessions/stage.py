"""A stage for scenarios: a puppet for a model, a clock that only a test moves, a process that dies without a word.

Invariants: whatever a scene did, at its end the log passes the offline checker and every open session's state
equals the one that is folded again from its log.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from buddy.config.settings import AgentSettings, Profile
from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.log.owners import this_owner
from buddy.models.contract import Item, Piece, Prompt, Reply, TextDelta, TokenUsage, ToolItem, UserItem
from buddy.protocol.envelopes import Event
from buddy.protocol.shapes import ToolCallItem
from buddy.sessions.spill import whole_body
from buddy.sessions.state import SessionFold
from checker import Recorded, check
from harness import House, house

Step = Piece | asyncio.Event | Exception
Turn = Sequence[Step]

_numbers = itertools.count(1)


class Clock:
    """Unix milliseconds that only a test moves."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


class Puppet:
    """A model that follows instructions, turn by turn: says a piece, waits for an event, or fails.

    `heard` is what it was sent, turn by turn; `listening` is set whenever it waits.
    """

    profile = "test"
    model = "puppet"
    api = "scripted"
    context_limit = 128_000

    def __init__(self, *turns: Turn) -> None:
        self.heard: list[list[Item]] = []
        self.listening = asyncio.Event()
        self._turns = turns

    async def stream(self, prompt: Prompt) -> AsyncIterator[Piece]:
        self.heard.append(list(prompt.items))
        if len(self.heard) > len(self._turns):
            raise AssertionError("the model was asked once more than the scene says")
        for step in self._turns[len(self.heard) - 1]:
            match step:
                case asyncio.Event():
                    self.listening.set()
                    await step.wait()
                case Exception():
                    raise step
                case _:
                    yield step

    async def close(self) -> None:
        """Nothing to close."""

    def results(self, turn: int = -1) -> list[str]:
        """The tool results in what it was sent."""
        return [item.text for item in self.heard[turn] if isinstance(item, ToolItem)]

    def told(self, turn: int = -1) -> list[str]:
        """The user's messages in what it was sent."""
        return [item.text for item in self.heard[turn] if isinstance(item, UserItem)]


def call(name: str, arguments: Mapping[str, object] | str, call_id: str | None = None) -> ToolCallItem:
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCallItem(call_id or f"call_{next(_numbers)}", name, text)


def shell(command: str) -> ToolCallItem:
    return call("run_shell", {"command": command})


def answer(text: str = "done", *calls: ToolCallItem, usage: TokenUsage | None = None) -> Turn:
    """A whole reply, its text said first."""
    said: list[Step] = [TextDelta(text)] if text else []
    return [*said, Reply(text, calls, "tool_calls" if calls else "stop", usage=usage or TokenUsage(10, 5))]


def asks_for(*calls: ToolCallItem) -> Turn:
    return answer("", *calls)


@asynccontextmanager
async def stage(
    workspace: Path,
    puppet: Puppet,
    *,
    log: Log | None = None,
    clock: Callable[[], int] = unix_ms,
    agent: AgentSettings | None = None,
    env: Mapping[str, str] | None = None,
    profiles: Mapping[str, Profile] | None = None,
    pruned: bool = False,
) -> AsyncGenerator[House]:
    """A runtime whose model is the puppet; `pruned` scenes have a log that does not begin with 1."""
    parts = RuntimeOverrides(clock=clock, log=log or MemoryLog(clock), provider=lambda _: puppet)
    async with house(workspace, parts=parts, agent=agent, env=env, profiles=profiles) as home:
        yield home
        await check_all(home, pruned=pruned)


async def check_all(home: House, *, pruned: bool = False) -> None:
    log = home.runtime.log
    for session in home.runtime.sessions.open_sessions:
        if session.broken:
            continue
        while True:  # a queued message may just have begun a run: only what rests can be compared
            await session.journal.commit()
            events = await read_all(log, session.session_id)
            folded = await refold(log, events)
            if events[-1].seq == session.journal.last_seq:
                break
        if not pruned:
            assert folded == session.fold
            assert check(Recorded({session.session_id: events}, complete=session.fold.run is None)) == []


async def refold(log: Log, events: Sequence[Event]) -> SessionFold:
    """Where a session stands, by its log alone."""

    async def read(blob: str) -> bytes | None:
        found = await log.read_blob(blob)
        return found[0] if found else None

    fold = SessionFold()
    for event in events:
        body = await whole_body(event, read)
        if body is not None:
            fold.apply(event, body)
    return fold


async def read_all(log: Log, session_id: str) -> list[Event]:
    found: list[Event] = []
    while page := await log.read(session_id, found[-1].seq if found else 0):
        found += page
    return found


async def crash(home: House, session_id: str) -> None:
    """As far as the log can tell the process is dead: not another word of it is written."""
    session = home.runtime.sessions.live(session_id)
    assert session is not None
    await session.journal.commit()
    await home.runtime.log.acquire(session_id, this_owner())
    session.broken = True  # as it would find out with its next append


async def log_types(home: House, session_id: str) -> list[str]:
    """The types of all that was recorded, without the chatter of phases, progress and status."""
    events = await read_all(home.runtime.log, session_id)
    return [event.type for event in events if event.type not in ("phase", "progress", "status")]


def names_in(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern))
