"""Memories recalled for a user message: sent with it, marked, and not part of the history."""

import asyncio
from pathlib import Path

import pytest

from buddy.backends.native import prompt as prompts
from buddy.backends.native.loop import Native
from buddy.backends.native.prompt import PromptSettings, Recall
from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.log.owners import this_owner
from buddy.protocol.events import SessionStarted
from buddy.protocol.ids import Ulids
from buddy.protocol.requests import SendUserMessage, StartSession
from buddy.protocol.shapes import Repo, ToolCallItem
from buddy.scrub import Scrubber
from buddy.sessions.services import SessionServices
from buddy.sessions.session import Session
from buddy.sessions.sessions import SessionFactories, Sessions
from buddy.targets.local import Local
from buddy.tools.contract import Place
from buddy.tools.read_file import ReadFile
from buddy.tools.registry import Registry
from buddy.tools.source import FixedSource
from tests.backends.wires import invalid_on_any_wire
from tests.backends.workers import Worker, texts
from tests.harness.models import call


def reads_once(turn: int) -> tuple[ToolCallItem, ...]:
    return (call("read_file", {"path": "missing"}),) if turn % 2 else ()


async def talk(place: Path, model: Worker, recall: Recall, *messages: str) -> Session:
    """A session without a daemon that receives these messages one after another."""
    registry = Registry((ReadFile(),))
    settings = PromptSettings(recall=recall)

    def backend(_started: SessionStarted, _profile: str | None, _model: str | None) -> Native:
        return Native(lambda _profile, _model: model, FixedSource(registry), lambda: True, settings)

    makers = SessionFactories(place=lambda _: Place(Local(), str(place)), backend=backend)
    sessions = Sessions(SessionServices(MemoryLog(unix_ms), unix_ms, Ulids(), Scrubber()), makers, this_owner())
    session, _ = await sessions.start(StartSession("interactive", "default", "local", Repo(str(place))))
    for number, text in enumerate(messages):
        await session.runs.send(SendUserMessage(session.session_id, f"msg_{number}", text), "cli")
        await session.runs.wait_idle()
    await sessions.close()
    return session


async def test_recalled_memories_precede_the_message_and_only_it(tmp_path: Path) -> None:
    asked: list[str] = []

    async def recall(text: str) -> str:
        asked.append(text)
        return f"Relevant context from memory:\n- about {text}"

    model = Worker(reads_once)
    await talk(tmp_path, model, recall, "first", "second")
    assert asked == ["first", "second"]
    one, again, two, _ = (list(prompt.items) for prompt in model.prompts)
    assert texts(one) == ["<memory>\nRelevant context from memory:\n- about first\n</memory>", "first"]
    assert again[0] is one[0]
    assert texts(two) == ["first", "<memory>\nRelevant context from memory:\n- about second\n</memory>", "second"]
    assert all(invalid_on_any_wire(prompt.items) is None for prompt in model.prompts)


async def test_an_empty_or_slow_memory_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "RECALL_SECONDS", 0.01)

    async def recall(text: str) -> str:
        if text == "slow":
            await asyncio.Event().wait()
        return ""

    model = Worker(lambda _: ())
    session = await talk(tmp_path, model, recall, "nothing", "slow")
    assert texts(list(model.prompts[-1].items)) == ["nothing", "slow"]
    assert session.fold.outcome == "success"
