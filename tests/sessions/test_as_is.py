"""A person's own words: what is redacted by guess is announced, and can be sent as it is; registered secrets never."""

import asyncio
from pathlib import Path

import pytest

from buddy.config.settings import AgentSettings, Profile
from buddy.protocol.events import RunComplete, UserMessage
from buddy.protocol.queue_requests import QueueMessage, QueueMessageReply, SteerRun
from buddy.protocol.requests import (
    AcceptedReply,
    ListSessions,
    ListSessionsReply,
)
from buddy.protocol.shapes import RunOptions
from tests.harness.models import StepModel, answer, asks_for, shell
from tests.harness.runtime import checked_host

KEY = "sk-live-4f9Qz81LmTx7Bv2R"
PROFILES = {"keyed": Profile(api_base_url="http://127.0.0.1:9/v1", api_key=KEY, model="any")}
AGENT = AgentSettings(model="keyed")
RANDOM = "q7Zp2LxV9mKc4TrB8wYd3NfH6sJg1QaE"
TYPED = f"decode {RANDOM} with password: letmein\nbut not {KEY}"


async def test_what_was_hidden_by_guess_is_counted(tmp_path: Path) -> None:
    model = StepModel(answer(), answer())
    async with checked_host(tmp_path, model, profiles=PROFILES, agent=AGENT) as host, host.client() as client:
        await client.start()
        await client.send(TYPED)
        await client.wait_for(RunComplete)
        assert client.bodies(UserMessage)[-1].redacted == 2
        await client.send(f"only {KEY}")
        await client.wait_for(RunComplete)
        assert client.bodies(UserMessage)[-1].redacted == 0
        assert model.user_messages()[0].startswith("decode [REDACTED:high-entropy] with password: [REDACTED]\n")


async def test_a_message_sent_as_it_is_reaches_the_model_without_registered_secrets(tmp_path: Path) -> None:
    model = StepModel(answer())
    async with checked_host(tmp_path, model, profiles=PROFILES, agent=AGENT) as host, host.client() as client:
        await client.start()
        await client.send(TYPED, options=RunOptions(as_is=True))
        await client.wait_for(RunComplete)
        assert model.user_messages() == [TYPED.replace(KEY, "[REDACTED]")]
        said = client.bodies(UserMessage)[-1]
        assert (said.as_is, said.redacted, said.text) == (True, 0, model.user_messages()[0])
        listed = await client.api.request(ListSessions(), ListSessionsReply)
        assert RANDOM not in (listed.sessions[0].title or "")  # a list is seen by others


@pytest.mark.parametrize("as_is", [False, True])
async def test_queued_and_steering_messages_can_be_sent_as_they_are(tmp_path: Path, as_is: bool) -> None:
    command = shell("until test -e go; do sleep 0.02; done")
    model = StepModel(asks_for(command), answer(), answer())
    async with checked_host(tmp_path, model, profiles=PROFILES, agent=AGENT) as host, host.client() as client:
        session_id = await client.start(approval_policy="all")
        run_id = await client.send("one")
        queued = QueueMessage("msg_queued", f"queued {RANDOM} {KEY}", as_is=as_is)
        await client.api.request(queued, QueueMessageReply, session_id)
        await client.api.request(SteerRun(run_id, f"steered {RANDOM} {KEY}", as_is=as_is), AcceptedReply, session_id)
        (tmp_path / "go").touch()
        await client.wait_for(RunComplete)
        await client.wait_for(RunComplete)
        shown = RANDOM if as_is else "[REDACTED:high-entropy]"
        assert model.user_messages() == ["one", f"steered {shown} [REDACTED]", f"queued {shown} [REDACTED]"]
        assert [said.redacted for said in client.bodies(UserMessage)] == ([0, 0, 0] if as_is else [0, 1, 1])


async def test_a_long_message_is_scrubbed_bit_by_bit(tmp_path: Path) -> None:
    model = StepModel(answer())
    async with checked_host(tmp_path, model, profiles=PROFILES, agent=AGENT) as host, host.client() as client:
        await client.start()
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counter = asyncio.create_task(count())
        await client.send("-u a:" * 50_000)
        counter.cancel()
        await client.wait_for(RunComplete)
        assert turns > 30
