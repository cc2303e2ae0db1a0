"""Titles, archived sessions and the list that is watched, against the real daemon."""

import json
from pathlib import Path

import pytest

from tests.harness.clients import TransportName, attach, decide, read_log, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.processes import CANARY
from tests.harness.wire_client import ErrorResponse, Message, WireClient

pytestmark = pytest.mark.parametrize("transport", ["unix", "websocket"])


async def rows(client: WireClient, **query: object) -> dict[str, Message]:
    return {row["sessionId"]: row for row in (await client.ask("list_sessions", {"limit": 200, **query}))["sessions"]}


async def run(client: WireClient, session_id: str, text: str) -> None:
    run_id = await send(client, session_id, text)
    await client.wait_for("run_complete", lambda payload: payload["runId"] == run_id)


async def test_a_session_is_called_by_its_first_message(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared, transport) as client:
        session_id = await start(client, shared)
        row = (await rows(client))[session_id]
        assert (row["title"], row["tokens"], row["costUsd"], row["context"], row["waiting"]) == (None, 0, None, None, 0)
        await run(
            client,
            session_id,
            "\n  count \x1b[31m\tthe sheep\u202e of the very large flock on the hill over there\nplease",
        )
        row = (await rows(client))[session_id]
        assert row["title"] == "count [31m the sheep of the very large flock on the hill…"
        assert (row["archived"], row["waiting"], row.get("parent")) == (False, 0, None)
        assert row["tokens"] > 0
        assert row["context"]["used"] > 0
        assert row["context"]["limit"] > 1
        before = row["tokens"]
        await run(client, session_id, "count again")
        row = (await rows(client))[session_id]
        assert row["title"].startswith("count [31m")
        assert row["tokens"] > before


async def test_a_title_is_given_recorded_and_kept(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared, transport) as client:
        older, session_id = await start(client, shared), await start(client, shared)
        assert await client.ask("rename_session", {"title": "  The flock "}, older) == {"title": "The flock"}
        renamed = await client.wait_for("session_renamed")
        assert renamed["payload"] == {"title": "The flock", "by": "cli"}
        assert [event["type"] for event in await read_log(client, older)][-1] == "session_renamed"
        await run(client, older, "count")
        await run(client, session_id, "count")
        await client.ask("rename_session", {"title": "Another"}, older)
        listed = await rows(client)
        assert listed[older]["title"] == "Another"
        assert list(listed)[:2] == [session_id, older]  # a new name is no use of it


@pytest.mark.parametrize("title", ["", "   ", "two\nlines", "\x1b[31mred", "left\u202eright", "x" * 121])
async def test_what_is_no_title_is_refused(shared: Daemon, transport: TransportName, title: str) -> None:
    async with wire_client(shared, transport) as client:
        session_id = await start(client, shared)
        with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
            await client.ask("rename_session", {"title": title}, session_id)


async def test_an_archived_session_leaves_the_list_and_comes_back(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared, transport) as client:
        session_id = await start(client, shared)
        assert await client.ask("archive_session", {"archived": True}, session_id) == {"archived": True}
        assert (await client.wait_for("session_archived"))["payload"] == {"archived": True, "by": "cli"}
        assert session_id not in await rows(client)
        assert (await rows(client, archived=True))[session_id]["archived"] is True
        await run(client, session_id, "count")  # it can still be used
        assert await client.ask("archive_session", {"archived": False}, session_id) == {"archived": False}
        assert (await rows(client))[session_id]["archived"] is False
        assert session_id not in await rows(client, archived=True)


async def test_only_a_driver_names_and_archives(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared, transport) as owner:
        session_id = await start(owner, shared)
        for role in ("observer", "approver"):
            token = (await owner.ask("mint_token", {"role": role}, session_id))["attachToken"]
            async with wire_client(shared, "websocket", token=token) as guest:
                await attach(guest, session_id, 0, token)
                for kind, payload in (("rename_session", {"title": "x"}), ("archive_session", {"archived": True})):
                    with pytest.raises(ErrorResponse, match="ATTACH_FORBIDDEN"):
                        await guest.ask(kind, payload, session_id)
        async with wire_client(shared, "websocket", token=owner.token) as driver:
            await attach(driver, session_id, 0, owner.token)
            assert await driver.ask("rename_session", {"title": "mine"}, session_id) == {"title": "mine"}


async def test_the_list_is_searched_and_paged(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared, transport) as client:
        mine = [await start(client, shared) for _ in range(5)]
        for number, session_id in enumerate(mine):
            await client.ask("rename_session", {"title": f"Straße {transport} no-{number}"}, session_id)
        found = await rows(client, query=f"STRASSE {transport}")
        assert set(found) == set(mine)
        assert set(await rows(client, query=f"{transport} NO-3 {shared.workspace.name}")) == {mine[3]}
        assert await rows(client, query=f"{transport} nowhere") == {}
        assert set(await rows(client, query=mine[2])) == {mine[2]}
        assert await rows(client, query=transport, state="running") == {}
        seen, cursor = list[str](), None
        for _ in range(3):
            more: Message = {"cursor": cursor} if cursor else {}
            page = await client.ask("list_sessions", {"limit": 2, "query": f"straße {transport}", **more})
            seen += [row["sessionId"] for row in page["sessions"]]
            cursor = page.get("nextCursor")
        assert (sorted(seen), cursor) == (sorted(mine), None)
        with pytest.raises(ErrorResponse, match="INVALID_REQUEST"):
            await client.ask("list_sessions", {"cursor": "elsewhere"})


async def test_a_watched_list_shows_every_change(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared, transport) as client, wire_client(shared, transport) as watcher:
        old = await start(client, shared)
        assert old in {row["sessionId"] for row in (await watcher.ask("watch_sessions", {"limit": 200}))["sessions"]}
        session_id = await start(client, shared)
        shown = await watcher.wait_for("session_row", lambda row: row["sessionId"] == session_id)
        assert ("seq" in shown, shown["sessionId"], shown["payload"]["state"]) == (False, session_id, "idle")
        await send(client, session_id, "make")
        asked = await client.wait_for("approval_required")
        row = (await watcher.wait_for("session_row", lambda row: row["waiting"] == 1))["payload"]
        assert (row["state"], row["title"]) == ("awaiting_approval", "make")
        await decide(client, asked)
        await watcher.wait_for("session_row", lambda row: row["state"] == "idle" and row["waiting"] == 0)
        await client.ask("rename_session", {"title": "made"}, session_id)
        await watcher.wait_for("session_row", lambda row: row["title"] == "made")
        await client.ask("archive_session", {"archived": True}, session_id)
        await watcher.wait_for("session_row", lambda row: row["archived"])
        await client.ask("delete_session", {}, old)
        gone = await watcher.wait_for("session_row", lambda row: row.get("deleted", False))
        assert gone["payload"]["sessionId"] == old
        assert all("seq" not in event for event in watcher.events)


async def test_a_guest_watches_only_its_own_sessions(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared, transport) as owner:
        other, session_id = await start(owner, shared), await start(owner, shared)
        token = owner.token
        async with wire_client(shared, "websocket", token=token) as guest:
            await attach(guest, session_id, 0, token)
            watched = (await guest.ask("watch_sessions"))["sessions"]
            assert [row["sessionId"] for row in watched] == [session_id]
            await owner.ask("rename_session", {"title": "not for the guest"}, other)
            await owner.ask("rename_session", {"title": "for the guest"}, session_id)
            shown = await guest.wait_for("session_row")
            assert shown["payload"]["title"] == "for the guest"


async def test_a_title_is_scrubbed(shared: Daemon, transport: TransportName) -> None:
    async with wire_client(shared, transport) as client:
        session_id, other = await start(client, shared), await start(client, shared)
        reply = await client.ask("rename_session", {"title": f"use {CANARY} here"}, session_id)
        assert CANARY not in reply["title"]
        await run(client, other, f"count {CANARY}")
        assert CANARY not in json.dumps(await rows(client))


async def test_a_session_whose_folder_is_gone_can_be_named(tmp_path: Path, transport: TransportName) -> None:
    """It is not opened, so nothing of it but its log is needed; and the totals survive a restart."""
    with Daemon(tmp_path, web=True) as daemon:
        async with wire_client(daemon, transport) as client:
            session_id = await start(client, daemon)
            await run(client, session_id, "count")
            before = (await rows(client))[session_id]
            copy = (await client.ask("fork_session", {"seq": before["lastSeq"]}, session_id))["sessionId"]
            forked = (await rows(client))[copy]
            assert (forked["title"], forked["parent"]) == ("count (fork)", session_id)
            assert forked["tokens"] == before["tokens"]
        daemon.stop()
        daemon.start()
        daemon.workspace.rename(tmp_path / "elsewhere")
        async with wire_client(daemon, transport) as client:
            assert (await rows(client))[session_id]["tokens"] == before["tokens"]
            await client.ask("rename_session", {"title": "lost"}, session_id)
            await client.ask("archive_session", {"archived": True}, session_id)
            row = (await rows(client, archived=True))[session_id]
            assert (row["title"], row["tokens"]) == ("lost", before["tokens"])
            log = await read_log(client, session_id)
            assert [event["type"] for event in log[-2:]] == ["session_renamed", "session_archived"]
            assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
