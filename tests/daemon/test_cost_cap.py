"""What all sessions cost on a day: shown, and limited if the configuration says so."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from buddy.daemon.overrides import RuntimeOverrides
from buddy.errors import ProtocolError
from buddy.log.memory import MemoryLog
from buddy.models.contract import Provider, TokenUsage
from buddy.models.script import Script, ScriptedCall, ScriptedReply
from buddy.models.scripted import Scripted
from buddy.protocol.events import ModelRequest, RunComplete, RunStarted
from buddy.protocol.queue_requests import QueueMessage, QueueMessageReply
from tests.backends.workers import PaidWorker, Worker
from tests.harness.clients import send, start, wire_client
from tests.harness.clock import ManualClock
from tests.harness.daemon import Daemon
from tests.harness.models import call
from tests.harness.runtime import RuntimeClient, crash, scripted_host
from tests.harness.scripts import Reply, section
from tests.harness.wire_client import ErrorResponse
from tests.replay.recordings import assert_same, recorded

USAGE = {"input_tokens": 1000, "output_tokens": 0, "cost_usd": 1.0}
LOOK: Reply = {"text": "looking", "calls": [{"name": "list_files", "args": {}}], "usage": USAGE}
SLOW_LOOK: Reply = {**LOOK, "text": "looking around", "delay": 0.05}
SCRIPT = [
    section("^spend", {"text": "spent", "usage": USAGE}),
    section("^work", *[SLOW_LOOK] * 8, {"text": "done", "usage": USAGE}),
]
RAISE = "raise cost_usd_per_day in [limits] of buddy.toml; a running daemon needs: buddy daemon restart"
HINT = f"wait until 00:00 UTC, or {RAISE}"


def cost_today(daemon: Daemon) -> float:
    return json.loads(daemon.run("daemon", "status", "--json").out)["costUsdToday"]


async def test_a_day_costs_no_more_than_its_cap_whoever_spends_it(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT, limits={"cost_usd_per_day": 1.5})
    with daemon:
        assert cost_today(daemon) == 0.0
        async with wire_client(daemon) as client:
            first, second = await start(client, daemon), await start(client, daemon)
            runs: list[str] = []
            for session_id in (first, second):
                runs.append(await send(client, session_id, "spend it", f"msg_{len(runs)}"))
                await client.wait_for("run_complete")
            assert cost_today(daemon) >= 1.5
            await client.ask("delete_session", {}, first)
            with pytest.raises(ErrorResponse, match=r"daily cost limit is reached: 2.00 of 1.50 USD are spent today"):
                await send(client, second, "spend it")
            assert await send(client, second, "spend it", "msg_1") == runs[1], "it was accepted before"
            with pytest.raises(ErrorResponse, match="the daily cost limit is reached"):
                await client.ask("compact_session", {}, second)
        listed = daemon.run("session", "list", "--json").out
        refused = daemon.run("exec", "spend it")
        assert refused.code == 75, refused.err
        assert "2.00 of 1.50 USD are spent today (cost_usd_per_day in [limits])" in refused.err
        assert f"hint: {HINT}" in refused.err
        assert daemon.run("session", "list", "--json").out == listed, "a refused exec leaves no session"
        assert json.loads(daemon.run("daemon", "status", "--json").out)["costUsdPerDay"] == 1.5
        status = daemon.run("daemon", "status").out
        assert "cost today 2.00 of 1.50 USD (since 00:00 UTC; models without a known price are not counted)" in status
    with daemon:
        assert cost_today(daemon) >= 1.5, "the log knows it, deleted sessions included"


def test_a_session_that_is_deleted_and_imported_again_costs_once(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, script=SCRIPT)
    with daemon:
        assert daemon.run("exec", "spend it").code == 0
        (tmp_path / "sessions.ndjson").write_text(daemon.run("session", "export", "last").out)
        assert daemon.run("session", "delete", "last").code == 0
        assert cost_today(daemon) == 1.0
        assert daemon.run("session", "import", str(tmp_path / "sessions.ndjson")).code == 0
        assert cost_today(daemon) == 1.0
        assert daemon.run("exec", "-c", "spend it").code == 0
        assert cost_today(daemon) == 2.0


async def test_runs_at_the_same_time_share_the_cap(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT, limits={"cost_usd_per_day": 2.5}) as daemon:
        async with wire_client(daemon) as client:
            sessions = [await start(client, daemon) for _ in range(3)]
            for session_id in sessions:
                await send(client, session_id, "work hard")
            ends = [(await client.wait_for("run_complete"))["payload"] for _ in sessions]
        assert {(end["reason"], end["limit"], end["headless"]["exitCodeHint"]) for end in ends} == {
            ("budget_exceeded", "cost", 5)
        }
        for end in ends:
            assert "of 2.50 USD are spent today (cost_usd_per_day in [limits])" in end["summary"]
            assert end["summary"].endswith(HINT)
        assert 2.5 <= cost_today(daemon) <= 2.5 + len(sessions), "at most the turn that was under way, in each run"


async def test_exec_says_that_the_day_ended_its_run(tmp_path: Path) -> None:
    with Daemon(tmp_path, script=SCRIPT, limits={"cost_usd_per_day": 1.5}) as daemon:
        ended = daemon.run("exec", "work hard")
        assert ended.code == 5, ended.err
        assert "failed: the daily cost limit is reached: 2.00 of 1.50 USD are spent today" in ended.err
        assert HINT in ended.err


# --- in this process, where the clock can be moved ---


def looking(times: int) -> list[ScriptedReply]:
    usage = TokenUsage(1000, 0, cost_usd=1.0)
    look = ScriptedReply("looking", calls=(ScriptedCall("list_files", {}),), usage=usage)
    return [*[look] * times, ScriptedReply("done", usage=usage)]


class PausedModel(Scripted):
    """Waits before its second turn, until it may go on."""

    def __init__(self, *replies: ScriptedReply) -> None:
        super().__init__("test", Script(replies=replies), sleep=self._pause)
        self.waits, self.goes_on = asyncio.Event(), asyncio.Event()

    async def _pause(self, _seconds: float) -> None:
        self.waits.set()
        await self.goes_on.wait()


def at(clock: ManualClock, model: Provider, log: MemoryLog | None = None) -> RuntimeOverrides:
    return RuntimeOverrides(clock=clock, log=log or MemoryLog(clock), provider=lambda _: model)


def clock_at(hour: int, minute: int) -> ManualClock:
    clock = ManualClock()
    clock.now = int(datetime(2026, 3, 4, hour, minute, tzinfo=UTC).timestamp() * 1000)
    return clock


async def finish(client: RuntimeClient, text: str) -> RunComplete:
    await client.send(text)
    return await client.wait_for(RunComplete)


async def test_a_run_that_crosses_midnight_spends_the_new_days_money(tmp_path: Path) -> None:
    clock, first, *rest = clock_at(23, 59), *looking(2)
    slow = ScriptedReply("wait", delay=1, calls=first.calls, usage=first.usage)
    model = PausedModel(first, slow, *rest[1:])
    limits = {"cost_usd_per_day": 2.0}
    async with scripted_host(tmp_path, overrides=at(clock, model), limits=limits) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await model.waits.wait()
        clock.advance(120)
        model.goes_on.set()
        assert (await client.wait_for(RunComplete)).outcome == "success"
        assert await host.runtime.admission.cost_today() == 2.0
        with pytest.raises(ProtocolError, match=r"2.00 of 2.00 USD are spent today"):
            await client.send("go")


async def test_a_recovered_run_counts_what_was_spent_before_the_crash(tmp_path: Path) -> None:
    clock, (first, _) = clock_at(12, 0), looking(1)
    log, model = MemoryLog(clock), PausedModel(first, ScriptedReply("wait", delay=1))
    limits = {"cost_usd_per_day": 1.0}
    async with scripted_host(tmp_path, overrides=at(clock, model, log)) as host, host.client() as client:
        session_id = await client.start()
        await client.send("go")
        await model.waits.wait()
        await crash(host, session_id)
        overrides = at(clock, Scripted("test", Script()), log)
        async with scripted_host(tmp_path, overrides=overrides, limits=limits) as later, later.client() as after:
            await later.runtime.sessions.recover()
            await after.api.attach(session_id)
            ended = await after.wait_for(RunComplete)
            assert "the daily cost limit is reached: 1.00 of 1.00 USD" in ended.summary
            assert len(after.bodies(ModelRequest)) == 2


async def test_a_queued_run_that_the_day_has_no_money_for_asks_no_model(tmp_path: Path) -> None:
    clock, first, *rest = clock_at(12, 0), *looking(0)
    model = PausedModel(ScriptedReply("wait", delay=1, usage=first.usage), *rest)
    limits = {"cost_usd_per_day": 1.0}
    async with scripted_host(tmp_path, overrides=at(clock, model), limits=limits) as host, host.client() as client:
        await client.start()
        await client.send("go")
        await model.waits.wait()
        await client.api.request(QueueMessage("msg_next", "and on"), QueueMessageReply, client.session_id)
        model.goes_on.set()
        ends = [await client.wait_for(RunComplete) for _ in range(2)]
        assert [end.outcome for end in ends] == ["success", "failed"]
        assert "the daily cost limit is reached" in ends[1].summary
        assert len(client.bodies(ModelRequest)) == 1
        assert [started.options.budget.max_cost_usd for started in client.bodies(RunStarted)] == [None, None]


async def test_a_model_without_a_price_is_not_counted_but_stops_at_the_cap(tmp_path: Path) -> None:
    clock, model = clock_at(12, 0), Worker(lambda turn: (call("list_files", {}),) if turn < 4 else ())
    limits = {"cost_usd_per_day": 1.0}
    async with scripted_host(tmp_path, overrides=at(clock, model), limits=limits) as host, host.client() as client:
        await client.start()
        assert (await finish(client, "go")).outcome == "success"
        assert await host.runtime.admission.cost_today() == 0.0
        assert host.runtime.admission.day_costs is not None
        host.runtime.admission.day_costs.add(None, 1.0, clock())  # another session's
        with pytest.raises(ProtocolError, match="daily cost limit is reached"):
            await client.send("go")


async def test_a_priced_call_counts_even_if_the_server_reports_no_usage(tmp_path: Path) -> None:
    clock, model = clock_at(12, 0), PaidWorker(lambda _: (call("list_files", {}),), usage=False)
    limits = {"cost_usd_per_day": 0.1}
    async with scripted_host(tmp_path, overrides=at(clock, model), limits=limits) as host, host.client() as client:
        session_id = await client.start()
        assert "the daily cost limit is reached" in (await finish(client, "go")).summary
        assert len(client.bodies(ModelRequest)) == 1
        await assert_same(await recorded(host.runtime.log, session_id))


async def test_a_run_that_the_day_ended_is_replayed(tmp_path: Path) -> None:
    limits = {"cost_usd_per_day": 2.0}
    async with scripted_host(tmp_path, *looking(5), limits=limits) as host, host.client() as client:
        session_id = await client.start()
        assert (await finish(client, "go")).reason == "budget_exceeded"
        await assert_same(await recorded(host.runtime.log, session_id))


async def test_without_a_cap_nothing_is_counted(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, *looking(1)) as host, host.client() as client:
        await client.start()
        assert (await finish(client, "go")).outcome == "success"
        assert host.runtime.sessions.services.day_limit is None


def test_where_nothing_may_be_spent_nobody_is_sent_to_wait(tmp_path: Path) -> None:
    refused = Daemon(tmp_path, script=SCRIPT, limits={"cost_usd_per_day": 0}).run("exec", "anything")
    assert (refused.code, f"hint: {RAISE}" in refused.err) == (75, True), refused.err
