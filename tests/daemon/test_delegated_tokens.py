"""What a token can reach: only its own session, and nothing that revoking it would leave behind."""

import pytest
import websockets

from buddy.approvals.deadlines import Moment
from buddy.daemon.roles import Roles
from buddy.errors import ProtocolError
from buddy.log.contract import TokenRecord
from buddy.log.memory import MemoryLog
from buddy.sessions.tokens import AttachTokens
from tests.daemon.test_tokens import mint
from tests.harness.clients import TransportName, attach, send, start, wire_client
from tests.harness.clock import ManualBootClock, ManualClock
from tests.harness.daemon import Daemon
from tests.harness.wire_client import ErrorResponse, Message, WebSocketTransport, WireClient


def scoped(asked: Message, scope: str) -> Message:
    decided = {name: asked[name] for name in ("sessionId", "runId")}
    return {**decided, "approvalId": asked["payload"]["approvalId"], "decision": "approve", "scope": scope}


@pytest.mark.parametrize(
    ("transport", "role"), [("unix", "approver"), ("websocket", "approver"), ("websocket", "driver")]
)
async def test_only_the_owner_stores_a_rule(shared: Daemon, transport: TransportName, role: str) -> None:
    before = shared.config.read_text()
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        token = await mint(owner, session_id, role)
        async with wire_client(shared, transport, name="helper", token=token) as helper:
            await attach(helper, session_id, 0, token)
            await send(owner, session_id, "make it")
            asked = await helper.wait_for("approval_required")
            with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                await helper.ask("submit_approval", scoped(asked, "always"), session_id)
            assert shared.config.read_text() == before
            await helper.ask("submit_approval", scoped(asked, "once"), session_id)
            await owner.wait_for("run_complete")


async def refused(daemon: Daemon, token: str) -> bool:
    try:
        transport = await WebSocketTransport.connect(f"ws://127.0.0.1:{daemon.port()}", token)
    except websockets.InvalidStatus as error:
        assert error.response.status_code == 401
        return True
    await WireClient(transport).close()
    return False


async def test_revoking_a_token_revokes_what_it_minted(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        first = await mint(owner, session_id, "driver")
        unrelated = await mint(owner, session_id, "driver")
        async with wire_client(shared, "websocket", name="first", token=first) as driver:
            second = await mint(driver, session_id, "driver")
            forked = await driver.ask("fork_session", {"seq": 1}, session_id)
            in_the_fork = await mint(driver, forked["sessionId"], "driver")
            async with wire_client(shared, "websocket", name="second", token=second) as guest:
                third = await mint(guest, session_id, "observer")
                again = await guest.ask("fork_session", {"seq": 1}, session_id)
                minted = [second, third, forked["attachToken"], in_the_fork, again["attachToken"]]
                assert [await refused(shared, token) for token in minted] == [False] * 5
                assert await owner.ask("revoke_token", {"attachToken": first}, session_id) == {"revoked": True}
                await driver.ended()
                await guest.ended()
        assert [await refused(shared, token) for token in minted] == [True] * 5
        assert not await refused(shared, unrelated)


async def test_what_a_token_minted_does_not_outlive_it(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        token = await mint(owner, session_id, "driver", 600)
        async with wire_client(shared, "websocket", token=token) as driver:
            await mint(driver, session_id, "approver")
            await mint(driver, session_id, "observer", 3600)
            fork = await driver.ask("fork_session", {"seq": 1}, session_id)
            here = (await owner.ask("list_tokens", {}, session_id))["tokens"]
            there = (await owner.ask("list_tokens", {}, fork["sessionId"]))["tokens"]
            ends = {entry["role"]: entry.get("expiresAt") for entry in here if entry.get("expiresAt")}
            assert len(set(ends.values())) == 1
            assert sorted(ends) == ["approver", "driver", "observer"]
            assert [entry["expiresAt"] for entry in there] == [ends["driver"]]


async def test_a_driver_revokes_no_token_of_another_session(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        mine, theirs = await start(owner, shared), await start(owner, shared)
        token, other = await mint(owner, mine, "driver"), await mint(owner, theirs, "observer")
        async with wire_client(shared, "websocket", token=token) as driver:
            with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                await driver.ask("revoke_token", {"attachToken": other}, mine)
        assert not await refused(shared, other)


@pytest.mark.parametrize(("wall", "boot"), [(3600, 0), (-3600, 11), (3600, 3600), (9.999, 10)])
async def test_a_role_ends_with_its_token_by_either_clock(wall: float, boot: float) -> None:
    clock, boot_clock = ManualClock(), ManualBootClock()
    log = MemoryLog(clock)
    tokens, closed = AttachTokens(log, lambda: Moment(clock(), boot_clock())), list[bool]()
    roles = Roles(tokens, is_owner=False, expire=lambda: closed.append(True))
    deadline = tokens.now().after(10)
    roles.grant(TokenRecord("hash", "sess_1", "driver", deadline.unix_ms, deadline.boot))
    roles.require("sess_1", "driver")
    clock.advance(wall)
    boot_clock.advance(boot)
    with pytest.raises(ProtocolError, match="expired"):
        roles.require("sess_1", "observer")
    assert closed
    assert roles.sessions == ()
    roles.close()
