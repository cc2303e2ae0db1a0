"""An unused session is closed, and is as it was when it is needed again."""

from pathlib import Path

from buddy.protocol.events import RunComplete, Usage
from buddy.protocol.requests import SetApprovalPolicy, SetApprovalPolicyReply
from tests.harness.clock import ManualClock
from tests.harness.models import StepModel, answer
from tests.harness.runtime import checked_host

HOUR = 3600


async def test_an_unused_session_is_closed_and_continues_when_it_is_needed(tmp_path: Path) -> None:
    clock, model = ManualClock(), StepModel(answer("one"), answer("two"))
    async with checked_host(tmp_path, model, clock=clock) as host:
        async with host.client() as client:
            session_id = await client.start()
            await client.send("first")
            await client.wait_for(RunComplete)
            clock.advance(HOUR)
            host.runtime.sessions.forget_dormant()
            assert host.runtime.sessions.live(session_id) is not None, "a client listens"
        while host.runtime.sessions.open_sessions:
            await host.runtime.log.wait(session_id, 10**9, 0.01)
            host.runtime.sessions.forget_dormant()
        async with host.client() as client:
            client.session_id = session_id
            await client.api.attach(session_id)
            await client.send("second")
            await client.wait_for(RunComplete, lambda body: body.summary == "two")
            assert len(client.bodies(Usage)) == 2
        assert model.user_messages() == ["first", "second"]


async def test_what_was_used_a_moment_ago_stays(tmp_path: Path) -> None:
    clock = ManualClock()
    async with checked_host(tmp_path, StepModel(answer("one")), clock=clock) as host:
        async with host.client() as client:
            session_id = await client.start()
            await client.send("first")
            await client.wait_for(RunComplete)
        clock.advance(60)
        host.runtime.sessions.forget_dormant()
        assert host.runtime.sessions.live(session_id) is not None


async def test_a_session_that_allows_for_a_while_stays_as_long(tmp_path: Path) -> None:
    clock = ManualClock()
    async with checked_host(tmp_path, StepModel(), clock=clock) as host:
        async with host.client() as client:
            session_id = await client.start()
            request = SetApprovalPolicy("until", 2 * HOUR)
            await client.api.request(request, SetApprovalPolicyReply, session_id)
        clock.advance(HOUR)
        host.runtime.sessions.forget_dormant()
        assert host.runtime.sessions.live(session_id) is not None
