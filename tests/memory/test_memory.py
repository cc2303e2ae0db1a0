"""Memory in a runtime: what was said in one session is recalled in the next, and nothing waits for it."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from buddy.client.client import Client
from buddy.config.settings import AgentSettings, Config, MemorySettings, Profile
from buddy.daemon.link import memory_pair
from buddy.daemon.memories import find_embedder, make_memory
from buddy.daemon.runtime import RuntimeOverrides, unix_ms
from buddy.log.contract import Log
from buddy.log.memory import MemoryLog
from buddy.memory.index import MemoryHit, MemoryScope
from buddy.memory.memory import Memory
from buddy.protocol.envelopes import Event
from buddy.protocol.events import RunComplete
from buddy.protocol.requests import DeleteSession, DeleteSessionReply
from buddy.sessions.spill import SPILL_ABOVE
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.runtime import RuntimeClient, RuntimeHost, scripted_host


@asynccontextmanager
async def remembering(workspace: Path, model: StepModel, log: Log | None = None) -> AsyncGenerator[RuntimeHost]:
    parts = RuntimeOverrides(log=log or MemoryLog(unix_ms), provider=lambda _: model, memory_dir=workspace)
    async with scripted_host(workspace, overrides=parts) as host:
        yield host


async def say(host: RuntimeHost, text: str, *, policy: str = "all") -> str:
    async with host.client() as client:
        session_id = await client.start(approval_policy=policy)
        await client.send(text)
        await client.wait_for(RunComplete)
        return session_id


async def settled(host: RuntimeHost, text: str, **scope: str) -> list[MemoryHit]:
    """What is found once everything that was said is read."""
    memory = host.runtime.memory
    assert memory is not None
    await memory.catch_up()
    return await memory.search(text, MemoryScope(**scope))


def kept_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("memory.db*"))


async def test_what_was_said_in_one_session_is_recalled_in_the_next(tmp_path: Path) -> None:
    model = StepModel(answer("noted"), answer("port 8743"))
    async with remembering(tmp_path, model) as host:
        first = await say(host, "the staging server listens on port 8743")
        assert await settled(host, "staging port")
        await say(host, "which port does staging use?")
    [told] = [text for text in model.user_messages() if "Relevant context from memory:" in text]
    assert f"- the staging server listens on port 8743 (user, {first} seq 2)" in told
    assert model.user_messages()[-1] == "which port does staging use?"


async def test_users_agents_and_tools_are_remembered(tmp_path: Path) -> None:
    model = StepModel(asks_for(shell("echo kumquat from the tool")), answer("kumquat from the agent"))
    async with remembering(tmp_path, model) as host:
        await say(host, "kumquat from the user")
        roles = {one.role for one in await settled(host, "kumquat")}
    assert roles == {"user", "assistant", "tool run_shell"}


async def test_long_texts_are_remembered_completely(tmp_path: Path) -> None:
    long = " ".join(f"filler{number}" for number in range(SPILL_ABOVE // 8)) + " persimmon"
    async with remembering(tmp_path, StepModel(answer(long))) as host:
        await say(host, "talk")
        assert [one.text[-9:] for one in await settled(host, "persimmon")] == ["persimmon"]


async def test_indexing_catches_up_from_the_cursor(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    parts = RuntimeOverrides(log=log, provider=lambda _: StepModel(answer("yes")))
    async with scripted_host(tmp_path, overrides=parts) as host:
        await say(host, "said while nobody listened: tamarind")
    memory = make_memory(Config(), {}, tmp_path, log)
    assert memory is not None
    await memory.catch_up()
    await memory.catch_up()
    assert len(await memory.search("tamarind", MemoryScope())) == 1
    await memory.close()


async def test_new_events_are_indexed_when_the_runtime_stops(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with remembering(tmp_path, StepModel(answer("yes")), log) as host:
        await say(host, "rambutan")
    memory = make_memory(Config(), {}, tmp_path, MemoryLog(unix_ms))
    assert memory is not None
    assert len(await memory.search("rambutan", MemoryScope())) == 1
    await memory.close()


async def test_a_deleted_session_is_not_recalled(tmp_path: Path) -> None:
    async with remembering(tmp_path, StepModel(answer("yes"))) as host:
        session_id = await say(host, "my number is 4711")
        assert await settled(host, "number 4711")
        async with host.client() as client:
            await client.api.request(DeleteSession(), DeleteSessionReply, session_id)
        assert await settled(host, "number 4711") == []


async def test_a_session_that_another_daemon_deleted_is_never_shown(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with remembering(tmp_path, StepModel(answer("noted"), answer("noted")), log) as host:
        deleted, kept = await say(host, "kumquat one"), await say(host, "kumquat two")
        await settled(host, "kumquat")
    shared = make_memory(Config(memory=MemorySettings(embeddings="none")), {}, tmp_path, log, is_shared=True)
    assert shared is not None
    try:
        assert {hit.session for hit in await shared.search("kumquat", MemoryScope())} == {deleted, kept}
        await log.delete(deleted)  # and its hint is lost
        assert {hit.session for hit in await shared.search("kumquat", MemoryScope())} == {kept}
    finally:
        await shared.close()


async def test_secrets_are_not_remembered(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    parts = RuntimeOverrides(log=log, provider=lambda _: StepModel(answer("yes")), memory_dir=tmp_path)
    async with scripted_host(tmp_path, overrides=parts, env={"API_KEY": "kiwi-4f5a1c9b7e2d"}) as host:
        await say(host, "the key is kiwi-4f5a1c9b7e2d")
        assert await settled(host, "key")
    assert b"kiwi-4f5a1c9b7e2d" not in kept_in(tmp_path)


async def test_a_broken_index_never_reaches_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "memory.db").mkdir()
    model = StepModel(answer("fine"))
    async with remembering(tmp_path, model) as host, host.client() as client:
        await client.start()
        await client.send("hello")
        assert (await client.wait_for(RunComplete)).outcome == "success"
    assert model.user_messages() == ["hello"]
    assert "nothing recalled" in caplog.text


async def test_recall_waits_no_longer_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("buddy.memory.memory.RECALL_SECONDS", 0.0)
    memory = make_memory(Config(), {}, tmp_path, MemoryLog(unix_ms))
    assert memory is not None
    assert await memory.recaller("sess_1", "/here")("anything") == ""
    await memory.close()


async def test_two_processes_read_a_session_into_one_index(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with scripted_host(
        tmp_path, overrides=RuntimeOverrides(log=log, provider=lambda _: StepModel(answer("yes")))
    ) as host:
        await say(host, "carambola")
    both = [_made(tmp_path, log), _made(tmp_path, log)]
    await asyncio.gather(*(memory.catch_up() for memory in both))
    found = [one.text for memory in both for one in await memory.search("carambola", MemoryScope())]
    assert found.count("carambola") == 2
    for memory in both:
        await memory.close()


async def test_a_recall_waits_for_the_embedder_only_if_words_found_nothing_where_something_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def find(_: Config, __: Mapping[str, str]) -> None:
        asked.append("embedder")

    # Without it, nothing starts to load the embedder while the test looks.
    monkeypatch.setattr("buddy.memory.memory.EMBEDDER_AFTER", 3600.0)
    monkeypatch.setattr("buddy.daemon.memories.find_embedder", find)
    log = MemoryLog(unix_ms)
    parts = RuntimeOverrides(log=log, provider=lambda _: StepModel(answer("yes")), memory_dir=tmp_path)
    async with scripted_host(tmp_path, overrides=parts) as host:
        await say(host, "carambola")
    memory = _made(tmp_path, log)
    project = str(tmp_path)
    assert await memory.recaller("sess_1", "/nothing/was/said/here")("anything") == ""
    assert "carambola" in await memory.recaller("sess_1", project)("carambola")
    assert asked == []
    assert await memory.recaller("sess_1", project)("anything") == ""
    assert asked == ["embedder"]
    await memory.close()


async def test_a_search_waits_for_the_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def find(_: Config, __: Mapping[str, str]) -> None:
        asked.append("embedder")

    monkeypatch.setattr("buddy.daemon.memories.find_embedder", find)
    memory = _made(tmp_path, MemoryLog(unix_ms))
    assert await memory.search("anything", MemoryScope()) == []
    assert asked == ["embedder"]
    await memory.close()


async def test_a_slow_embedder_does_not_hold_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = threading.Event()

    def find(_: Config, __: Mapping[str, str]) -> None:
        loaded.wait(timeout=60)

    monkeypatch.setattr("buddy.memory.memory.EMBEDDER_SECONDS", 0.05)
    monkeypatch.setattr("buddy.daemon.memories.find_embedder", find)
    log = MemoryLog(unix_ms)
    parts = RuntimeOverrides(log=log, provider=lambda _: StepModel(answer("yes")), memory_dir=tmp_path)
    async with scripted_host(tmp_path, overrides=parts) as host:
        await say(host, "carambola")
        # The runtime's own memory may be loading its embedder by now; what is tested has its own.
        loaded.set()
    loaded.clear()
    memory = _made(tmp_path, log)
    assert await memory.recaller("sess_1", str(tmp_path))("anything") == ""
    assert not loaded.is_set()
    loaded.set()
    await memory.close()


async def test_a_session_that_cannot_be_read_keeps_no_other_from_being_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = MemoryLog(unix_ms)
    parts = RuntimeOverrides(log=log, provider=lambda _: StepModel(*[answer("yes")] * 3))
    async with scripted_host(tmp_path, overrides=parts) as host:
        for fruit in ("carambola", "physalis", "rambutan"):
            await say(host, fruit)
    broken = (await log.newest(3))[1].session_id
    read = log.read

    async def fail(session_id: str, *rest: Any) -> list[Event]:
        if session_id == broken:
            raise OSError(5, "Input/output error")
        return await read(session_id, *rest)

    monkeypatch.setattr(log, "read", fail)
    memory = _made(tmp_path, log)
    await memory.catch_up()
    found = {hit.text for hit in await memory.search("carambola physalis rambutan", MemoryScope())}
    assert found & {"carambola", "physalis", "rambutan"} == {"carambola", "rambutan"}
    assert f"{broken} cannot be indexed" in caplog.text
    await memory.close()


def _made(folder: Path, log: Log) -> Memory:
    memory = make_memory(Config(), {}, folder, log)
    assert memory is not None
    return memory


def test_memory_can_be_turned_off(tmp_path: Path) -> None:
    config = Config(memory=MemorySettings(enabled=False))
    assert make_memory(config, {}, tmp_path, MemoryLog(unix_ms)) is None


def test_without_an_embedder_the_search_is_by_words() -> None:
    assert find_embedder(Config(memory=MemorySettings(embeddings="none")), {}) is None


def test_a_profile_without_a_server_is_not_an_embedder(caplog: pytest.LogCaptureFixture) -> None:
    settings = MemorySettings(embeddings="gone", embedding_model="m")
    config = Config(models={"test": Profile(api="scripted")}, agent=AgentSettings(model="test"), memory=settings)
    assert find_embedder(config, {}) is None
    assert "no embeddings from gone" in caplog.text


def test_weights_must_sum_to_one() -> None:
    with pytest.raises(ValueError, match="sum to 1"):
        MemorySettings(vector_weight=0.7, text_weight=0.7)


async def test_a_user_recalls_their_own_sessions_alone(tmp_path: Path) -> None:
    model = StepModel(*[answer("noted")] * 4)
    async with remembering(tmp_path, model) as host:
        for user in ("ann", "bob", None):
            await say_as(host, user, f"the staging server of {user} listens on port 8743")
        assert await settled(host, "staging port")
        await say_as(host, "ann", "which port does staging use?")
    [recalled] = [text for text in model.user_messages() if "Relevant context from memory:" in text]
    assert "staging server of ann" in recalled
    assert "staging server of bob" not in recalled
    assert "staging server of None" not in recalled


async def say_as(host: RuntimeHost, user: str | None, text: str) -> None:
    theirs, ours = memory_pair()
    assert host.runtime.accept(ours, trusted=user is None, user=user)
    async with Client(theirs, "cli") as client:
        one = RuntimeClient(client, host.workspace)
        await one.start(approval_policy="all")
        await one.send(text)
        await one.wait_for(RunComplete)
