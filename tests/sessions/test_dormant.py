"""A session that nobody uses is let go of, and is as it was when it is asked for again."""

from pathlib import Path

from buddy.protocol.events import RunComplete, Usage
from buddy.protocol.requests import SetApprovalPolicy, SetApprovalPolicyReply
from sessions.stage import Clock, Puppet, answer, stage

HOUR = 3600


async def test_what_nobody_uses_is_let_go_of_and_goes_on_when_it_is_asked_for(tmp_path: Path) -> None:
    clock, puppet = Clock(), Puppet(answer("one"), answer("two"))
    async with stage(tmp_path, puppet, clock=clock) as home:
        async with home.client() as guest:
            session_id = await guest.start()
            await guest.send("first")
            await guest.until(RunComplete)
            clock.advance(HOUR)
            home.runtime.sessions.forget_dormant()
            assert home.runtime.sessions.live(session_id) is not None, "a client listens"
        while home.runtime.sessions.open_sessions:
            await home.runtime.log.wait(session_id, 10**9, 0.01)
            home.runtime.sessions.forget_dormant()
        async with home.client() as guest:
            guest.session_id = session_id
            await guest.client.attach(session_id)
            await guest.send("second")
            await guest.until(RunComplete, lambda body: body.summary == "two")
            assert len(guest.bodies(Usage)) == 2
        assert puppet.told() == ["first", "second"]


async def test_what_was_used_a_moment_ago_stays(tmp_path: Path) -> None:
    clock = Clock()
    async with stage(tmp_path, Puppet(answer("one")), clock=clock) as home:
        async with home.client() as guest:
            session_id = await guest.start()
            await guest.send("first")
            await guest.until(RunComplete)
        clock.advance(60)
        home.runtime.sessions.forget_dormant()
        assert home.runtime.sessions.live(session_id) is not None


async def test_a_session_that_allows_for_a_while_stays_as_long(tmp_path: Path) -> None:
    clock = Clock()
    async with stage(tmp_path, Puppet(), clock=clock) as home:
        async with home.client() as guest:
            session_id = await guest.start()
            request = SetApprovalPolicy("until", 2 * HOUR)
            await guest.client.request(request, SetApprovalPolicyReply, session_id)
        clock.advance(HOUR)
        home.runtime.sessions.forget_dormant()
        assert home.runtime.sessions.live(session_id) is not None
