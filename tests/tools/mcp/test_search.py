"""Many tools do not flood the prompt: beyond a limit the model sees their names, and looks for the rest."""

import asyncio
from pathlib import Path

from buddy.config.mcp import McpSettings
from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.log.memory import MemoryLog
from buddy.protocol.events import RunComplete, ToolResult
from tests.harness.models import answer, asks_for, call
from tests.harness.processes import PATIENCE
from tests.harness.runtime import check_host, scripted_host
from tests.tools.mcp.servers import lines, plain_server
from tests.tools.test_source import Shown


async def test_beyond_a_limit_tools_are_looked_for_and_then_called(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    model = Shown(
        asks_for(call("search_tools", {"query": "says the text again", "limit": 1})),
        asks_for(call("mcp__one__echo", {"text": "found"}), call("mcp__one__add", {"a": 1, "b": 2})),
        answer(),
    )
    few = McpSettings({"one": plain_server(ledger)}, definitions_kib=1)
    overrides = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model)
    async with (
        asyncio.timeout(PATIENCE),
        scripted_host(tmp_path, overrides=overrides, mcp=few) as host,
        host.client() as client,
    ):
        await client.start(approval_policy="all")
        await client.send("go")
        await client.wait_for(RunComplete)
        offered = [{name for name in model.names(turn) if name.startswith("mcp__")} for turn in range(3)]
        assert offered == [set(), {"mcp__one__echo"}, {"mcp__one__echo"}]
        (spec,) = [one for one in model.tools[0] if one.name == "search_tools"]
        assert "mcp__one__slow" in spec.description
        found, echoed, added = client.bodies(ToolResult)
        assert found.text.startswith("## mcp__one__echo\nSays the text again.\narguments: {")
        assert echoed.text == "echo: found" and not added.is_error  # not looked for, but it can be called
        assert lines(ledger) == ["echo found", "add 1 2"]
        await check_host(host)


async def test_few_tools_are_all_part_of_the_prompt(tmp_path: Path) -> None:
    model = Shown(answer())
    overrides = RuntimeOverrides(log=MemoryLog(unix_ms), provider=lambda _: model)
    servers = McpSettings({"one": plain_server()})
    async with (
        asyncio.timeout(PATIENCE),
        scripted_host(tmp_path, overrides=overrides, mcp=servers) as host,
        host.client() as client,
    ):
        await client.start()
        await client.send("go")
        await client.wait_for(RunComplete)
        assert {"mcp__one__echo", "mcp__one__add"} < model.names(0) and "search_tools" not in model.names(0)
