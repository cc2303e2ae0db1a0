"""Long texts: frames stay small, blobs have the complete text, and a reopened session has it again."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buddy.errors import ProtocolError
from buddy.log.contract import Log
from buddy.models.contract import AssistantItem
from buddy.protocol.envelopes import Event, encode
from buddy.protocol.events import (
    AssistantMessage,
    EventBody,
    RunComplete,
    RunStarted,
    StartedOptions,
    ToolCall,
    ToolOutput,
    ToolResult,
    UserMessage,
    wire_name,
)
from buddy.protocol.requests import ReadBlob, ReadBlobReply
from buddy.protocol.shapes import BudgetLimits, Criterion
from buddy.sessions.active import STREAMED_PER_CALL
from buddy.sessions.spill import SPILL_ABOVE, restore_spilled, spill
from buddy.steps import at_once
from tests.harness.logs import read_all
from tests.harness.models import StepModel, answer, asks_for, call, shell
from tests.harness.runtime import RuntimeClient, checked_host, crash

MAX_EVENT = 64 * 1024


async def read_complete(client: RuntimeClient, blob: str, part: int = 262_144) -> str:
    """A blob as a client reads it, part by part."""
    text = ""
    while True:
        offset = len(text.encode())
        reply = await client.api.request(ReadBlob(blob, offset, part), ReadBlobReply, client.session_id)
        text += reply.text
        if len(text.encode()) >= reply.total:
            return text


async def test_a_long_text_is_stored_completely_while_its_frame_stays_small(
    tmp_path: Path, logs: Callable[[], Log]
) -> None:
    asked, said = "ä" * 100_000, "wörd " * 30_000
    async with checked_host(tmp_path, StepModel(answer(said)), log=logs()) as host, host.client() as client:
        session_id = await client.start()
        await client.send(asked)
        await client.wait_for(RunComplete)
        assert max(len(event.line()) for event in client.received) <= MAX_EVENT
        message = client.bodies(UserMessage)[0]
        assert message.blobs is not None
        assert await read_complete(client, message.blobs["/text"], 999) == asked
        reply = client.bodies(AssistantMessage)[0]
        assert reply.blobs is not None
        assert await read_complete(client, reply.blobs["/text"]) == said
        await crash(host, session_id)
        later = StepModel(answer())
        later.context_limit = 1_000_000
        async with checked_host(tmp_path, later, log=logs()) as after, after.client() as again:
            again.session_id = session_id
            await again.send("and?")
            await again.wait_for(RunComplete)
            assert later.user_messages() == [asked, "and?"]
            assert later.received[0][1] == AssistantItem(said)


async def test_a_text_can_only_be_read_in_its_own_session(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer())) as host, host.client() as client:
        await client.start()
        await client.send("word " * 20_000)
        await client.wait_for(RunComplete)
        blobs = client.bodies(UserMessage)[0].blobs
        assert blobs is not None
        other = await client.start()
        with pytest.raises(ProtocolError, match="unknown blob"):
            await client.api.request(ReadBlob(blobs["/text"]), ReadBlobReply, other)


async def test_a_message_over_the_limit_is_refused(tmp_path: Path) -> None:
    async with checked_host(tmp_path, StepModel(answer())) as host, host.client() as client:
        await client.start()
        for text, told in (("ä" * 131_073, "longer than 256 KiB"), ("  \n", "empty")):
            with pytest.raises(ProtocolError, match=told) as refusal:
                await client.send(text)
            assert refusal.value.code == "INVALID_REQUEST"
        await client.send("x" * 262_144)
        await client.wait_for(RunComplete)


async def test_the_model_learns_head_and_tail_and_the_blob_has_all(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("echo first; seq 100000; echo last")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        told = model.tool_results()[0]
        assert len(told.encode()) <= 16 * 1024
        assert told.startswith("exit code: 0\nstdout:\nfirst\n")
        assert told.endswith("last")
        result = client.bodies(ToolResult)[0]
        assert result.output is not None
        whole = await read_complete(client, result.output)
        assert [line for line in whole.splitlines() if line.isdigit()] == [str(n) for n in range(1, 100_001)]


async def test_what_is_shown_of_an_endless_output_is_bounded(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("yes 0123456789 | head -c 3000000")), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        session_id = await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        shown = sum(len(output.text) for output in client.bodies(ToolOutput))
        assert shown == STREAMED_PER_CALL
        lines = [len(event.line()) for event in await read_all(host.runtime.log, session_id)]
        assert max(lines) <= MAX_EVENT


async def test_arguments_of_many_short_strings_leave_the_frame_too(tmp_path: Path) -> None:
    many = [f"{number} " + "x" * 1000 for number in range(500)]
    model = StepModel(asks_for(call("unknown_tool", {"list": many})), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        assert max(len(event.line()) for event in client.received) <= MAX_EVENT
        shown = client.bodies(ToolCall)[0]
        assert shown.blobs is not None
        ((path, blob),) = shown.blobs.items()
        found = msgspec.json.decode(await read_complete(client, blob))
        assert {"/args": {"list": many}, "/args/list": many}[path] == found


async def test_a_message_with_very_many_checks_fits() -> None:
    checks = [Criterion(f"check-{number}", "true", description="d" * 900) for number in range(200)]
    body = RunStarted(run_id="run_1", options=StartedOptions(budget=BudgetLimits(), acceptance_criteria=tuple(checks)))
    assert await spilled_and_back(body) == body


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).map(lambda text: text * 1500)
trees = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("a/~", max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(args=st.dictionaries(st.text("b/~", max_size=3), trees, max_size=4))
async def test_a_spilled_text_comes_back_complete(args: dict[str, object]) -> None:
    body = ToolCall(source="unknown", tool_name="any", args=args)
    assert await spilled_and_back(body) == body


async def spilled_and_back(body: EventBody) -> EventBody | None:
    tree = msgspec.json.decode(encode(body))
    blobs = at_once(spill(tree, type(body)))
    payload = msgspec.json.encode(tree)
    assert len(payload) <= max(SPILL_ABOVE, MAX_EVENT)

    async def read(blob: str) -> bytes | None:
        return blobs.get(blob)

    return await restore_spilled(Event("sess_1", 1, 1, wire_name(type(body)), msgspec.Raw(payload)), read)
