"""A session that was compacted more often than can be undone from memory: it is opened, goes on, and is undone."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from buddy.backends.contract import UNDOABLE
from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.log.memory import MemoryLog
from buddy.models.contract import Item
from buddy.protocol.events import AssistantMessage, RunComplete, SessionCompacted, ToolResult
from buddy.protocol.requests import CompactSession, CompactSessionReply
from buddy.protocol.shapes import ToolCallItem
from tests.backends.workers import Worker, texts
from tests.harness.models import call, shell
from tests.harness.runtime import RuntimeClient, RuntimeHost, check_host, crash, scripted_host

RULE = "You must never touch keys.txt."
TIMES = UNDOABLE + 3
LONG = "for i in $(seq 1 9000); do echo line $i; done; : > made.txt"
NOTE = {"path": "note.txt"}


class Conversation:
    """A session whose every message but the last three is in a summary, after many compactions."""

    def __init__(self, host: RuntimeHost, client: RuntimeClient, model: Worker, calls: list[ToolCallItem]) -> None:
        self.host = host
        self.client = client
        self.model = model
        self._calls = calls

    async def say(self, text: str, *calls: ToolCallItem) -> list[Item]:
        """Send a message; returns what the model was sent last."""
        self._calls.extend(calls)
        await self.client.send(text)
        assert (await self.client.wait_for(RunComplete)).outcome == "success"
        return list(self.model.prompts[-1].items)

    async def compact(self, *, undo: bool = False) -> None:
        done = await self.client.api.request(CompactSession(undo=undo), CompactSessionReply, self.client.session_id)
        assert (done.after_tokens > done.before_tokens) == undo
        assert done.after_tokens != done.before_tokens
        await self.client.wait_for(SessionCompacted)

    async def reopen(self) -> None:
        """As after the death of the process."""
        await crash(self.host, self.client.session_id)
        await self.client.api.attach(self.client.session_id, self.client.received[-1].seq)


@asynccontextmanager
async def compacted_often(tmp_path: Path, *, reopens: bool) -> AsyncGenerator[Conversation]:
    calls: list[ToolCallItem] = []
    model = Worker(lambda _: (calls.pop(0),) if calls else (), limit=200_000)
    (tmp_path / "note.txt").write_text("a word of many " * 100)
    parts = RuntimeOverrides(clock=unix_ms, log=MemoryLog(unix_ms), provider=lambda _: model)
    async with scripted_host(tmp_path, overrides=parts) as host, host.client() as client:
        await client.start(approval_policy="all")
        conversation = Conversation(host, client, model, calls)
        await conversation.say(RULE, shell(LONG))
        for number in range(3):
            await conversation.say(f"early {number}", call("read_file", NOTE))
        for number in range(TIMES):
            await conversation.say(f"message {number}", call("read_file", NOTE))
            await conversation.compact()
            if reopens:
                await conversation.reopen()
        yield conversation
        await check_host(host)


async def test_it_goes_on_after_a_restart_as_without_one(tmp_path: Path) -> None:
    prompts: list[list[str]] = []
    for reopens in (False, True):
        folder = tmp_path / str(reopens)
        folder.mkdir()
        async with compacted_often(folder, reopens=reopens) as conversation:
            sent = await conversation.say("and now?")
            await conversation.compact()
            summary = conversation.client.bodies(SessionCompacted)[-1].summary
            assert RULE in summary
            assert LONG[:20] in summary, "what was done before the first event that is read"
            prompts.append([*texts(sent), *texts(await conversation.say("go on"))])
    assert prompts[0] == prompts[1]


async def test_every_compaction_of_it_can_be_undone(tmp_path: Path) -> None:
    async with compacted_often(tmp_path, reopens=True) as conversation:
        for _ in range(TIMES):
            await conversation.compact(undo=True)
        sent = texts(await conversation.say("and now?"))
        early = [f"early {number}" for number in range(3)]
        assert sent == [RULE, *early, *(f"message {number}" for number in range(TIMES)), "and now?"]


async def test_a_call_of_it_never_has_the_id_of_an_earlier_one(tmp_path: Path) -> None:
    async with compacted_often(tmp_path, reopens=True) as conversation:
        first = conversation.client.bodies(AssistantMessage)[0].tool_calls[0].call_id
        again = ToolCallItem(first, "read_file", '{"path":"made.txt"}')
        await conversation.say("once more", again, again)
        ids = [one.call_id for body in conversation.client.bodies(AssistantMessage) for one in body.tool_calls]
        assert len(ids) == len(set(ids))


async def test_an_output_of_its_beginning_can_be_read(tmp_path: Path) -> None:
    async with compacted_often(tmp_path, reopens=True) as conversation:
        output = next(body.output for body in conversation.client.bodies(ToolResult) if body.output is not None)
        await conversation.say(
            "read it", call("read_output", {"output": output}), call("read_output", {"output": "0" * 64})
        )
        found, unknown = conversation.client.bodies(ToolResult)[-2:]
        assert "line 1\n" in found.text
        assert "no such output" in unknown.text
