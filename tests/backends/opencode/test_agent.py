"""OpenCode as an agent: the scenarios that every runtime must pass, and the lifecycle of its server."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from buddy.approvals.digest import nonce_of
from buddy.backends.external.contract import AgentRequest, AgentResult, Completion, Delta, Message, SessionLost
from buddy.backends.external.pool import AgentPool
from buddy.backends.opencode import server
from buddy.backends.opencode.settings import session_rules
from buddy.errors import ProviderError, UserError
from buddy.targets import orphans
from buddy.targets.local import Local
from tests.backends.opencode.serving import conversation, kinds, make, request, serving
from tests.backends.talking import listen, send, until


def server_of(place: Path) -> list[int]:
    """The processes of the server started for this folder."""
    return orphans.find(nonce_of(str(place), "opencode on local"))


# --- the scenarios of the agent runtime ------------------------------------------------------------------------------


async def test_runtime_initialization_succeeds(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        assert agent.is_available
        assert agent.name == "opencode"


async def test_opencode_server_lifecycle(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        await agent.ping()
        assert len(server_of(tmp_path)) == 1
    assert server_of(tmp_path) == []


async def test_streaming_session_lifecycle(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        executor = await agent.execute(request(tmp_path, "say hello"))
        assert kinds(await listen(executor)) == ["Delta", "Message", "UsageReport", "Completion"]
        assert executor.backend_session_id.startswith("ses_")
        assert not executor.is_closed
        await executor.close()
        assert executor.is_closed
        assert await executor.wait() == 0


async def test_session_cancellation(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        await executor.send_message("wait")
        await until(executor, Delta)
        await executor.cancel()
        assert await until(executor, Completion) == Completion("cancelled")
        assert executor.done.is_set()
        assert await executor.wait() == 0
        assert executor.can_continue
        assert Completion("completed", "again") in await send(executor, "say again")
        assert not executor.done.is_set()
        await executor.close()
        assert executor.done.is_set()
        assert not executor.can_continue


async def test_opencode_event_normalization(tmp_path: Path) -> None:
    async with conversation(tmp_path) as executor:
        message = next(event for event in await send(executor, "say hi") if isinstance(event, Message))
        assert (message.role, message.text) == ("assistant", "hi")


async def test_opencode_session_continuation(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        first = await agent.execute(request(tmp_path, "say one"))
        await listen(first)
        await first.close()
    async with serving(tmp_path) as agent:
        resumed = msgspec.structs.replace(request(tmp_path), session_id=first.backend_session_id)
        executor = await agent.execute(resumed)
        assert executor.backend_session_id == first.backend_session_id
        assert (await send(executor, "recall"))[-1] == Completion("completed", "1 before")
        with pytest.raises(SessionLost, match="ses_unknown"):
            await agent.execute(msgspec.structs.replace(resumed, session_id="ses_unknown"))


@pytest.mark.parametrize(("plan", "agent_name"), [(False, "build"), (True, "plan")])
async def test_opencode_agent_selection(plan: bool, agent_name: str, tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        executor = await agent.execute(msgspec.structs.replace(request(tmp_path), plan=plan))
        completion = (await send(executor, "who"))[-1]
        assert isinstance(completion, Completion)
        assert msgspec.json.decode(completion.text, type=list[str])[:2] == [agent_name, "None/None"]
    denied = {"permission": "edit", "pattern": "*", "action": "deny"}
    assert (denied in session_rules(plan=plan)) == plan


async def test_opencode_health_check_succeeds(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        await agent.ping()


async def test_opencode_health_check_fails(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        (pid,) = server_of(tmp_path)
        os.kill(pid, signal.SIGKILL)
        await until_gone(tmp_path)
        with pytest.raises(ProviderError, match="does not respond"):
            await agent.ping()


async def test_concurrent_sessions_same_project(tmp_path: Path) -> None:
    places = [tmp_path / "left", tmp_path / "right"]
    for place in places:
        place.mkdir()
    async with serving(tmp_path) as agent:
        executors = [await agent.execute(request(place)) for place in (*places, places[0])]
        texts = ["say left left", "say right right", "say third"]
        answers = await asyncio.gather(*(send(executor, text) for executor, text in zip(executors, texts, strict=True)))
        assert [events[-1] for events in answers] == [
            Completion("completed", text.removeprefix("say ")) for text in texts
        ]
        assert len(server_of(tmp_path)) == 1


async def test_execute_once_answers_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        result = await agent.execute_once(request(tmp_path, "say all there is"))
        assert result == AgentResult(result.session_id, "all there is", "completed")
        refused = await agent.execute_once(request(tmp_path, "run touch made"))
        assert refused.reason == "completed"
        assert not (tmp_path / "made").exists()


# --- server lifecycle ------------------------------------------------------------------------------------------


async def until_gone(place: Path) -> None:
    await wait_for(lambda: not server_of(place))


async def wait_for(holds: Callable[[], bool]) -> None:
    """Poll: other processes do not notify us."""

    def look() -> None:
        while not holds():
            time.sleep(0.01)

    await asyncio.to_thread(look)


async def test_a_missing_program_is_reported_with_the_install_command(tmp_path: Path) -> None:
    agent = make(str(tmp_path), "no-such-opencode")
    assert not agent.is_available
    for refusing in (agent.check, lambda: None):
        with pytest.raises(UserError, match="no-such-opencode is not installed") as refused:
            refusing()
            await agent.start(Local(), str(tmp_path))
        assert refused.value.hint == "npm install -g opencode-ai"


async def test_a_server_that_fails_to_start_is_reported_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", "dying")
    with pytest.raises(ProviderError, match="no port is good enough"):
        await make(str(tmp_path)).start(Local(), str(tmp_path))
    assert server_of(tmp_path) == []


async def test_a_server_that_closes_stdout_but_keeps_running_fails_to_start(tmp_path: Path) -> None:
    agent = make(str(tmp_path), "sh", "-c", "exec >&- 2>&-; sleep 600")
    with pytest.raises(ProviderError, match="did not start"):
        await agent.start(Local(), str(tmp_path))


async def test_a_line_that_is_too_long_breaks_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LINE_LIMIT", 1000)

    async def pieces(*texts: str) -> AsyncIterator[bytes]:
        for text in texts:
            yield text.encode()

    read = [line async for line in server.split_lines(pieces("one\r", "\ntw", "o\u2028\n", "x" * 900 + "\n", "rest"))]
    assert read == ["one", "two\u2028", "x" * 900]
    with pytest.raises(ProviderError, match="too long"):
        async for _ in server.split_lines(pieces(*["y" * 100] * 11)):
            pass


async def test_an_unanswered_health_check_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_OPENCODE", "deaf")
    async with serving(tmp_path) as agent:
        await agent.ping()


async def test_the_password_is_not_in_the_process_list(tmp_path: Path) -> None:
    async with serving(tmp_path):
        (pid,) = server_of(tmp_path)
        given = (Path("/proc") / str(pid) / "environ").read_bytes().split(b"\0")
        (password,) = [line.partition(b"=")[2] for line in given if line.startswith(b"OPENCODE_SERVER_PASSWORD=")]
        assert len(password) >= 32
        assert password not in (Path("/proc") / str(pid) / "cmdline").read_bytes()


async def test_when_the_server_dies_its_conversations_end_with_its_last_output(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        dying, other = await agent.execute(request(tmp_path)), await agent.execute(request(tmp_path))
        assert await send(dying, "die") == []
        assert "met its end" in str(dying.errors[-1])
        assert await dying.wait() == 7
        await other.done.wait()
        with pytest.raises(ProviderError):
            await other.send_message("say anything")


async def test_the_pool_replaces_a_server_that_died(tmp_path: Path) -> None:
    pool = AgentPool(lambda _: make(str(tmp_path)))
    try:
        first = await pool.start_agent("opencode", Local(), str(tmp_path))
        assert await pool.start_agent("opencode", Local(), str(tmp_path)) is first
        (pid,) = server_of(tmp_path)
        os.kill(pid, signal.SIGKILL)
        await until_gone(tmp_path)
        second = await pool.start_agent("opencode", Local(), str(tmp_path))
        executor = await second.execute(request(tmp_path))
        assert (await send(executor, "say back"))[-1] == Completion("completed", "back")
    finally:
        await pool.close()
    assert server_of(tmp_path) == []


async def test_an_orphaned_server_is_ended_by_the_next_start(tmp_path: Path) -> None:
    async with serving(tmp_path):
        left = server_of(tmp_path)
        async with serving(tmp_path):
            assert set(server_of(tmp_path)).isdisjoint(left)


async def test_closing_a_conversation_stops_its_work(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        executor = await agent.execute(request(tmp_path, "run echo $$ > pid; exec sleep 1000"))
        listening = asyncio.create_task(listen(executor))
        file = tmp_path / "pid"
        await wait_for(lambda: file.exists() and file.read_text() != "")
        working = Path("/proc") / file.read_text().strip()
        await executor.close()
        await listening
        await wait_for(lambda: not working.exists())


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["opencode.json", ".opencode/plugins/p.js", ".opencode/plugin/p.ts"])
async def test_a_repository_with_its_own_settings_is_refused_until_trusted(name: str, tmp_path: Path) -> None:
    work = tmp_path / "work" / "below"
    work.mkdir(parents=True)
    file = tmp_path / "work" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}")
    trusted: list[str] = []
    agent = make(str(tmp_path), is_trusted=trusted.__contains__)
    await agent.start(Local(), str(work))
    try:
        with pytest.raises(UserError, match="without asking") as refused:
            await agent.execute(request(work))
        assert refused.value.hint.endswith(f"buddy trust {tmp_path / 'work'}")
        trusted.append(str(tmp_path / "work"))
        assert await agent.execute(request(work))
    finally:
        await agent.close()


async def test_a_model_without_a_provider_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as agent:
        with pytest.raises(UserError, match="PROVIDER/MODEL"):
            await agent.execute(AgentRequest("", str(tmp_path), "nonce", model="some-model"))


async def test_an_agent_that_was_not_started_cannot_be_used(tmp_path: Path) -> None:
    agent = make(str(tmp_path))
    for call in (agent.ping(), agent.execute(request(tmp_path))):
        with pytest.raises(ProviderError, match="not started"):
            await call
