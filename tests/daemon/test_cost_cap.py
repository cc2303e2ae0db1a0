"""What all sessions cost on a day: shown, and limited if the configuration says so."""

import json
from pathlib import Path

import pytest

from tests.harness.clients import send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.scripts import section
from tests.harness.wire_client import ErrorResponse

SCRIPT = [section("^spend", {"text": "spent", "usage": {"input_tokens": 1000, "output_tokens": 0, "cost_usd": 1.0}})]


def cost_today(daemon: Daemon) -> float:
    return json.loads(daemon.run("daemon", "status", "--json").out)["costUsdToday"]


async def test_a_day_costs_no_more_than_its_cap_whoever_spends_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT, limits={"cost_usd_per_day": 1.5})
    with daemon:
        assert cost_today(daemon) == 0.0
        async with wire_client(daemon) as client:
            first, second = await start(client, daemon), await start(client, daemon)
            for session_id in (first, second):
                await send(client, session_id, "spend it")
                await client.wait_for("run_complete")
            started = [event["payload"] for event in client.events if event["type"] == "run_started"]
            assert [one["options"]["budget"].get("maxCostUsd") for one in started] == [1.5, 0.5]
            assert cost_today(daemon) >= 1.5
            await client.ask("delete_session", {}, first)
            with pytest.raises(ErrorResponse, match=r"limit of this daemon is reached: .* USD are spent today"):
                await send(client, second, "spend it")
        listed = daemon.run("session", "list", "--json").out
        refused = daemon.run("exec", "spend it")
        assert refused.code == 75, refused.err
        assert "USD are spent today" in refused.err
        assert daemon.run("session", "list", "--json").out == listed, "a refused exec leaves no session"
        status = daemon.run("daemon", "status").out
        assert "cost today 2.00 USD (since 00:00 UTC; models without a known price are not counted)" in status
    with daemon:
        assert cost_today(daemon) >= 1.5, "the log knows it, deleted sessions included"
