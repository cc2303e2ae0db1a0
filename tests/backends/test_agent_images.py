"""Images for external agents: passed on where their protocol can, described where it can't, and never fatal."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from buddy.daemon.runtime import unix_ms
from buddy.log.memory import MemoryLog
from buddy.protocol.events import AssistantToken, RunComplete, UserMessage, WarningRaised
from buddy.protocol.requests import SendUserMessage
from buddy.protocol.shapes import Attachment
from tests.backends.agents import AGENTS, Agent, agent_host
from tests.backends.real import at_home, program
from tests.daemon.test_uploads import upload
from tests.harness.pictures import png
from tests.harness.runtime import RuntimeClient, crash, ids

IMAGE = png(64, 48, filler=900)
SEEN = f"<image/png {hashlib.sha256(IMAGE).hexdigest()[:8]}>"
EXTERNAL = pytest.mark.parametrize("agent", AGENTS[1:], ids=lambda agent: agent.name)


async def show(client: RuntimeClient, text: str) -> RunComplete:
    """Send a message with an image; returns how its run ended."""
    blob = await upload(client, IMAGE)
    given = (Attachment(blob, name="shot.png"),)
    await client.api.send(SendUserMessage(client.session_id, ids("msg"), text, attachments=given))
    return await client.wait_for(RunComplete)


@EXTERNAL
async def test_an_agent_sees_the_images_of_a_message(agent: Agent, tmp_path: Path) -> None:
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start()
        ended = await show(client, "say look")
        assert (ended.outcome, ended.summary.strip()) == ("success", f"look {SEEN}")
        assert client.bodies(UserMessage)[0].attachments[0].width == 64
        assert (await show(client, "")).summary.strip().endswith(SEEN.split()[1])
        await client.send("say again")
        assert (await client.wait_for(RunComplete)).summary.strip() == "again"


@EXTERNAL
async def test_an_agent_that_fails_on_an_image_gets_a_description_in_a_session_without_it(
    agent: Agent, tmp_path: Path
) -> None:
    async with agent_host(agent, tmp_path) as host, host.client() as client:
        await client.start()
        await client.send("say hello")
        await client.wait_for(RunComplete)
        ended = await show(client, "blind")
        assert ended.outcome == "success", ended
        assert "'shot.png' (PNG, 64x48) is not shown to you: it was refused]" in ended.summary
        [warning] = [body for body in client.bodies(WarningRaised) if body.code == "IMAGE_LEFT_OUT"]
        assert "the image is too large" in (warning.detail or "")
        await client.send("say fine")
        assert (await client.wait_for(RunComplete)).summary.strip().endswith("fine")


async def test_an_acp_agent_without_the_capability_gets_a_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_AGENT", "sightless")
    async with agent_host(AGENTS[3], tmp_path) as host, host.client() as client:
        await client.start()
        said = (await show(client, "say look")).summary
        assert "(PNG, 64x48) is not shown to you: this agent does not take images]" in " ".join(said.split())


async def test_an_agent_that_was_killed_sees_the_image_again(tmp_path: Path) -> None:
    log = MemoryLog(unix_ms)
    async with agent_host(AGENTS[3], tmp_path, log) as host, host.client() as client:
        session_id = await client.start()
        given = (Attachment(await upload(client, IMAGE), name="shot.png"),)
        await client.api.send(SendUserMessage(session_id, ids("msg"), "wait", attachments=given))
        await client.wait_for(AssistantToken)
        await crash(host, session_id)
        async with agent_host(AGENTS[3], tmp_path, log) as after, after.client() as later:
            await after.runtime.sessions.open(session_id)
            await later.api.attach(session_id)
            assert (await later.wait_for(RunComplete)).summary.strip() == "went on"
    prompts = [text for texts in json.loads((tmp_path / ".fake-agent.json").read_text()).values() for text in texts]
    assert [SEEN in text for text in prompts] == [True, True]


@pytest.mark.slow  # the real programs take seconds to start
@pytest.mark.parametrize("runtime", ["opencode", "droid", "acp:opencode", "acp:droid"])
async def test_the_model_of_a_real_agent_gets_the_image(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = runtime.removeprefix("acp:")
    program(name)
    workspace = tmp_path / "work"
    workspace.mkdir()
    async with at_home(tmp_path / "home", monkeypatch) as model:
        env = {"PATH": os.environ["PATH"], **({} if name == "opencode" else {"FACTORY_API_KEY": "fk-not-a-real-key"})}
        async with agent_host(Agent("real", runtime, env=env), workspace) as host, host.client() as client:
            await client.start(model="custom:Fake-0" if name == "droid" else None)
            for text in ("say seen", ""):
                before = len(model.requests)
                ended = await show(client, text)
                assert ended.outcome == "success", ended
                assert any(_has_image(heard.body) for heard in model.requests[before:])


def _has_image(body: dict[str, Any]) -> bool:
    parts = [
        part for message in body["messages"] if isinstance(message["content"], list) for part in message["content"]
    ]
    return any(part["type"] == "image_url" and part["image_url"]["url"].startswith("data:image/") for part in parts)
