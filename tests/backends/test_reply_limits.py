"""Replies that are too long or ask for too much: the run goes on, and the model learns of it."""

import json
from pathlib import Path

import pytest

from buddy.models.limits import MAX_ARGUMENTS, MAX_CALLS
from buddy.protocol.events import AssistantToken, RunComplete, ToolCall, ToolResult
from buddy.protocol.shapes import ToolCallItem
from buddy.scrub import heuristics
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.runtime import checked_host


async def test_calls_beyond_the_limit_get_an_error_and_do_not_run(tmp_path: Path) -> None:
    wanted = [call("time", {}, f"c{number}") for number in range(MAX_CALLS + 72)]
    model = StepModel(asks_for(*wanted), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go")
        ended = await client.wait_for(RunComplete)
        assert ended.outcome == "success"
        results = client.bodies(ToolResult)
        assert len(results) == len(wanted)
        assert [result.is_error for result in results] == [False] * MAX_CALLS + [True] * 72
        assert f"one reply may make {MAX_CALLS} calls" in results[-1].text


async def test_arguments_beyond_the_limit_get_an_error_and_do_not_run(tmp_path: Path) -> None:
    model = StepModel(asks_for(call("write_file", {"path": "a", "content": "x" * MAX_ARGUMENTS})), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        (result,) = client.bodies(ToolResult)
        (made,) = client.bodies(ToolCall)
        assert "longer than the limit of 8 MiB" in result.text
        assert len(str(made.args)) < 1000
        assert not (tmp_path / "a").exists()


async def test_arguments_that_are_nested_too_deeply_get_an_error(tmp_path: Path) -> None:
    deep = ToolCallItem("c1", "write_file", '{"a":' * 100_000 + "1" + "}" * 100_000)
    model = StepModel(asks_for(deep), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go")
        assert (await client.wait_for(RunComplete)).outcome == "success"
        (result,) = client.bodies(ToolResult)
        assert "nested deeper than 64 levels" in result.text


async def test_a_long_delta_is_recorded_in_small_events(tmp_path: Path) -> None:
    model = StepModel(answer("word " * 100_000))
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        tokens = [body.text for body in client.bodies(AssistantToken)]
        assert "".join(tokens) == "word " * 100_000
        assert max(map(len, tokens)) <= 16 * 1024


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "new.txt", "content": "name = value\n" * 100_000}),
        ("run_shell", {"command": "yes secret=secret= | head -c 1000000"}),
    ],
)
async def test_nothing_long_is_scrubbed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, object]
) -> None:
    longest = 0
    mask = heuristics.mask

    def spy(text: str, *, random: bool = True) -> str:
        nonlocal longest
        longest = max(longest, len(text))
        return mask(text, random=random)

    monkeypatch.setattr(heuristics, "mask", spy)
    model = StepModel(asks_for(call(tool, arguments)), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        (result,) = client.bodies(ToolResult)
        assert not result.is_error, json.dumps(result.text[:200])
    assert longest <= 128 * 1024
