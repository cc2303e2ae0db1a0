"""Logging in to the console: links are used once, logins end when they should, and no other page can use one."""

import asyncio
import json
from pathlib import Path

import pytest
import websockets

from tests.harness.clients import read_log, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.web_client import WebClient, open_console, owner_link, port_in, session_link
from tests.harness.wire_client import ErrorResponse, WireClient


async def test_a_link_logs_the_owner_in_once(shared: Daemon) -> None:
    web, token = WebClient(shared.port()), await owner_link(shared)
    answer = await web.log_in(token)
    assert answer.status == 200
    assert answer.json() == {"role": "owner", "sessionId": None, "expiresAt": None}
    name, *attributes = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"buddy_{shared.port()}=att_")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(attributes)
    assert "Secure" not in attributes
    assert token not in answer.headers["set-cookie"]
    assert (await web.get("/login")).json()["role"] == "owner"
    client = await web.client()
    assert (await client.ask("list_sessions"))["sessions"] is not None
    await client.close()
    again = WebClient(shared.port())
    refused = await again.log_in(token)
    assert (refused.status, list(refused.json())) == (401, ["error"])
    assert "set-cookie" not in refused.headers
    assert (await again.get("/login")).status == 401


async def test_of_many_at_once_one_logs_in(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
    for token in (await owner_link(shared), await session_link(shared, session_id, "observer")):
        clients = [WebClient(shared.port()) for _ in range(12)]
        statuses = [answer.status for answer in await asyncio.gather(*(web.log_in(token) for web in clients))]
        assert statuses.count(200) == 1
        assert {status for status in statuses if status != 200} <= {401, 429}


async def test_a_link_of_a_role_can_do_no_more_than_the_role(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id, other = await start(owner, shared), await start(owner, shared)
        await send(owner, session_id, "count")
        await owner.wait_for("run_complete")
        web = WebClient(shared.port())
        answer = await web.log_in(await session_link(shared, session_id, "observer", 600))
        assert (answer.json()["role"], answer.json()["sessionId"]) == ("observer", session_id)
        assert answer.json()["expiresAt"] > 0
        guest = await web.client()
        listed = (await guest.ask("list_sessions", {"limit": 200}))["sessions"]
        assert [row["sessionId"] for row in listed] == [session_id]
        assert await read_log(guest, session_id) == await read_log(owner, session_id)
        for kind, payload, named in (
            ("send_user_message", {"sessionId": session_id, "clientMessageId": "msg_1", "text": "x"}, session_id),
            ("mint_token", {"role": "observer"}, session_id),
            ("fork_session", {"seq": 1}, session_id),
            ("read_events", {"after": 0}, other),
            ("attach_session", {"sessionId": other, "lastSeenSeq": 0}, other),
            ("list_approvals", {}, None),
            ("shutdown", {}, None),
            ("open_web", {}, None),
            ("mint_web_link", {}, None),
        ):
            with pytest.raises(ErrorResponse) as refused:
                await guest.ask(kind, payload, named)
            assert refused.value.code == "ATTACH_FORBIDDEN", kind
        await guest.close()


async def test_the_owners_login_mints_no_links(shared: Daemon) -> None:
    web = WebClient(shared.port())
    await web.log_in(await owner_link(shared))
    client = await web.client()
    for kind in ("open_web", "mint_web_link", "revoke_web_logins"):
        with pytest.raises(ErrorResponse, match="Unix socket"):
            await client.ask(kind)
    await client.close()


async def test_a_link_can_be_attached_with_once(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
    token = await session_link(shared, session_id, "observer")
    async with wire_client(shared) as guest:
        place = {"sessionId": session_id, "lastSeenSeq": 0, "attachToken": token}
        await guest.ask("attach_session", place, session_id)
        with pytest.raises(ErrorResponse, match="not valid"):
            await guest.ask("attach_session", place, session_id)
    assert (await WebClient(shared.port()).log_in(token)).status == 401


async def test_revoking_a_link_ends_its_login_and_closes_its_sockets(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        token, web = await session_link(shared, session_id, "observer"), WebClient(shared.port())
        await web.log_in(token)
        guest = await web.client()
        infos = (await owner.ask("list_tokens", {}, session_id))["tokens"]
        link = next(info for info in infos if info.get("kind") == "used_link")
        login = next(info for info in infos if info.get("kind") == "login")
        assert login["mintedBy"] == link["id"]
        assert (await owner.ask("revoke_token", {"attachToken": link["id"]}, session_id))["revoked"]
        await guest.ended()
        assert (await web.get("/login")).status == 401
        with pytest.raises(websockets.InvalidStatus):
            await web.websocket()


async def test_a_login_ends_with_its_time(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
    web = WebClient(shared.port())
    assert (await web.log_in(await session_link(shared, session_id, "observer", 2.0))).status == 200
    guest = await web.client()
    await guest.ended()
    assert (await web.get("/login")).status == 401


async def test_an_expired_link_is_refused(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
    tokens = [await owner_link(shared, expiresInSeconds=0.01), await session_link(shared, session_id, "driver", 0.01)]
    await asyncio.sleep(0.02)
    assert [(await WebClient(shared.port()).log_in(token)).status for token in tokens] == [401, 401]


async def test_logging_out_ends_the_login_and_closes_its_sockets(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
    for token in (await owner_link(shared), await session_link(shared, session_id, "driver")):
        web, bystander = WebClient(shared.port()), WebClient(shared.port())
        await web.log_in(token)
        await bystander.log_in(await owner_link(shared))
        client, other = await web.client(), await bystander.client()
        answer = await web.post("/logout")
        assert answer.status == 204
        assert "Max-Age=0" in answer.headers["set-cookie"]
        await client.ended()
        assert (await web.get("/login")).status == 401
        assert (await other.ask("ping"))["pong"]
        await other.close()


async def test_a_token_that_is_no_link_can_log_in_and_outlives_the_logout(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        await start(owner, shared)
        driver = owner.token
    web = WebClient(shared.port())
    for _ in range(2):
        assert (await web.log_in(driver)).json()["role"] == "driver"
        assert (await web.post("/logout")).status == 204
    assert (await web.log_in(shared.token())).json()["role"] == "owner"


async def test_all_logins_of_the_owner_can_be_ended(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        webs = [WebClient(daemon.port()) for _ in range(3)]
        for web in webs:
            await web.log_in(await owner_link(daemon))
        unused = await owner_link(daemon)
        client = await webs[0].client()
        async with wire_client(daemon) as owner:
            assert await owner.ask("revoke_web_logins") == {"revoked": 3}
        await client.ended()
        assert [(await web.get("/login")).status for web in webs] == [401] * 3
        assert (await WebClient(daemon.port()).log_in(unused)).status == 401


async def test_logins_and_the_port_survive_a_restart(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        url = await open_console(daemon, listen="127.0.0.1:0")
        assert await open_console(daemon) == url
        async with wire_client(daemon) as owner:
            session_id = await start(owner, daemon)
        webs = [WebClient(port_in(url)) for _ in range(2)]
        await webs[0].log_in(await owner_link(daemon))
        await webs[1].log_in(await session_link(daemon, session_id, "approver"))
        unused = await owner_link(daemon)
        for _ in range(2):
            daemon.kill()
            daemon.start()
            await wait_for_port(webs[0].port)
            assert [(await web.get("/login")).json()["role"] for web in webs] == ["owner", "approver"]
            client = await webs[0].client()
            assert session_id in json.dumps(await client.ask("list_sessions"))
            await client.close()
        assert (await WebClient(webs[0].port).log_in(unused)).status == 401
        for web in webs:
            assert web.cookie.partition("=")[2] not in (daemon.state_dir / "web.json").read_text()
        assert (daemon.state_dir / "web.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
async def test_nothing_listens_after_a_restart_if_nobody_is_logged_in(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        url = await open_console(daemon, listen="127.0.0.1:0")
        await WebClient(port_in(url)).log_in(await owner_link(daemon))
        async with wire_client(daemon) as owner:
            await owner.ask("revoke_web_logins")
        daemon.kill()
        daemon.start()
        async with wire_client(daemon) as owner:
            with pytest.raises(ErrorResponse, match="not open"):
                await owner.ask("mint_web_link")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port_in(url))
        assert await open_console(daemon) == url


async def test_a_page_that_leads_a_browser_is_private_and_goes(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        async with wire_client(daemon) as owner:
            made = await owner.ask("mint_web_link", {"page": True})
        [page] = pages_of(daemon)
        assert str(page) == made["page"]
        assert made["url"] in page.read_text()
        assert page.stat().st_mode & 0o777 == 0o600
        daemon.kill()
        daemon.start()
        assert pages_of(daemon) == []


async def test_guessing_is_slowed_down_and_keeps_nobody_out(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        guesses = [f"att_guess{number:032}" for number in range(60)]
        webs = [WebClient(daemon.port()) for _ in guesses]
        guessing = asyncio.gather(*(web.log_in(guess) for web, guess in zip(webs, guesses, strict=True)))
        assert (await WebClient(daemon.port()).log_in(await owner_link(daemon))).status == 200
        answers = await guessing
        assert {answer.status for answer in answers} == {401, 429}
        limited = next(answer for answer in answers if answer.status == 429)
        assert int(limited.headers["retry-after"]) > 0
        for guess in guesses:
            assert guess not in daemon.log()


def pages_of(daemon: Daemon) -> list[Path]:
    return list(daemon.state_dir.glob("console-*.html"))


async def wait_for_port(port: int) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


async def test_a_guest_is_not_shown_the_rows_of_other_sessions(shared: Daemon) -> None:
    async with wire_client(shared) as owner:
        session_id = await start(owner, shared)
        web = WebClient(shared.port())
        await web.log_in(await session_link(shared, session_id, "observer"))
        guest = await web.client()
        rows = (await guest.ask("watch_sessions", {"limit": 200}))["sessions"]
        assert [row["sessionId"] for row in rows] == [session_id]
        other = await start(owner, shared)
        await send(owner, other, "count")
        await owner.wait_for("run_complete")
        await send(owner, session_id, "count")
        while session_id not in (seen := rows_in(guest)):
            await guest.receive()
        assert set(seen) == {session_id}
        await guest.close()


def rows_in(client: WireClient) -> list[str]:
    """The sessions whose rows this client was sent."""
    frames = [event["payload"] for event in client.events if event["type"] == "session_row"]
    return [(frame.get("session") or frame)["sessionId"] for frame in frames]
