"""What was granted for a session or for a time: listed, taken back, and what a restart leaves of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.clients import attach, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.scripts import section, shell
from tests.harness.wire_client import ErrorResponse, Message, WireClient

SCRIPT = [section(f"^{word}", shell(f"echo {word}"), {"text": "done"}) for word in ("one", "two")]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, script=SCRIPT) as found:
        yield found


async def asked_for(client: WireClient, session_id: str, text: str) -> Message:
    await send(client, session_id, text)
    return await client.wait_for("approval_required")


async def decide(client: WireClient, asked: Message, scope: str, decision: str = "approve") -> str:
    approval_id = asked["payload"]["approvalId"]
    payload = {"sessionId": asked["sessionId"], "runId": asked["runId"], "approvalId": approval_id}
    seconds = {"durationSeconds": 600} if scope == "until" else {}
    await client.ask(
        "submit_approval", {**payload, "decision": decision, "scope": scope, **seconds}, asked["sessionId"]
    )
    await client.wait_for("run_complete")
    return approval_id


async def granted(client: WireClient, session_id: str) -> list[Message]:
    return (await client.ask("list_grants", {}, session_id))["grants"]


@pytest.mark.parametrize("scope", ["session", "until"])
async def test_a_revoked_grant_no_longer_holds(daemon: Daemon, scope: str) -> None:
    async with wire_client(daemon) as client:
        session_id = await start(client, daemon)
        assert await granted(client, session_id) == []
        grant_id = await decide(client, await asked_for(client, session_id, "one"), scope)
        await send(client, session_id, "one")
        await client.wait_for("run_complete")  # without a question
        (grant,) = await granted(client, session_id)
        assert (grant["grantId"], grant["sessionId"], grant["scope"]) == (grant_id, session_id, scope)
        assert "echo one" in grant["summary"]
        assert ("expiresAt" in grant) == (scope == "until")
        assert (await client.ask("list_approvals", {"grants": True}))["grants"] == [grant]
        assert "grants" not in await client.ask("list_approvals")

        assert await client.ask("revoke_grant", {"grantId": grant_id}, session_id) == {"accepted": True}
        revoked = await client.wait_for("approval_policy_changed")
        assert revoked["payload"] == {"policy": "ask", "by": "cli", "revoked": grant_id}
        assert await granted(client, session_id) == []
        await decide(client, await asked_for(client, session_id, "one"), "once")
        with pytest.raises(ErrorResponse, match="APPROVAL_NOT_FOUND"):
            await client.ask("revoke_grant", {"grantId": grant_id}, session_id)
        made = (await client.ask("list_decisions", {}))["decisions"]
        assert [(line["decision"], line.get("approvalId")) for line in made][2] == ("policy", grant_id)
        assert f"revoked {grant_id}" in made[2]["summary"]
    assert daemon.run("replay", session_id).code == 0


async def test_one_grant_is_revoked_and_the_other_stays(daemon: Daemon) -> None:
    async with wire_client(daemon) as client:
        session_id = await start(client, daemon)
        first = await decide(client, await asked_for(client, session_id, "one"), "session")
        second = await decide(client, await asked_for(client, session_id, "two"), "until")
        assert [grant["grantId"] for grant in await granted(client, session_id)] == [first, second]
        await client.ask("revoke_grant", {"grantId": first}, session_id)
        assert [grant["grantId"] for grant in await granted(client, session_id)] == [second]
        await send(client, session_id, "two")
        await client.wait_for("run_complete")
        await decide(client, await asked_for(client, session_id, "one"), "once", "deny")


@pytest.mark.slow
async def test_a_restart_ends_what_was_granted_for_a_time_and_keeps_what_was_revoked(daemon: Daemon) -> None:
    async with wire_client(daemon) as client:
        session_id, other = await start(client, daemon), await start(client, daemon)
        gone = await decide(client, await asked_for(client, session_id, "one"), "session")
        kept = await decide(client, await asked_for(client, session_id, "two"), "session")
        await decide(client, await asked_for(client, other, "one"), "until")
        await client.ask("revoke_grant", {"grantId": gone}, session_id)
    daemon.kill()
    daemon.start()
    async with wire_client(daemon) as client:
        listed = (await client.ask("list_approvals", {"grants": True}))["grants"]  # before the session is opened
        assert [(grant["grantId"], grant["sessionId"]) for grant in listed] == [(kept, session_id)]
        assert "echo two" in listed[0]["summary"]
        await attach(client, session_id, 10_000)
        assert await granted(client, session_id) == listed
        assert await granted(client, other) == []
        await send(client, session_id, "two")
        await client.wait_for("run_complete")
        await decide(client, await asked_for(client, session_id, "one"), "once")


@pytest.mark.slow
async def test_the_command_line_lists_and_revokes_grants(daemon: Daemon) -> None:
    async with wire_client(daemon) as client:
        session_id = await start(client, daemon)
        first = await decide(client, await asked_for(client, session_id, "one"), "session")
        second = await decide(client, await asked_for(client, session_id, "two"), "until")
    lines = daemon.run("approvals", "list").out.splitlines()
    assert lines[0] == f"granted  {first}  for this session: run_shell echo one  ({session_id})"
    assert lines[1].startswith(f"granted  {second}  for a time, expires in ")
    assert "echo two" in lines[1]
    found = json.loads(daemon.run("approvals", "list", "--json").out)["grants"]
    assert [(grant["grantId"], grant["sessionId"]) for grant in found] == [(first, session_id), (second, session_id)]
    assert daemon.run("approvals", "list", "--no-grants").out == ""

    wrong = daemon.run("approvals", "revoke", "nope-nope")
    assert (wrong.code, wrong.err.splitlines()[0].endswith("and no such grant")) == (64, True)
    done = daemon.run("approvals", "revoke", first[-8:])
    assert (done.code, done.err) == (0, f"revoked {first}: run_shell echo one is asked about again\n")
    assert daemon.run("approvals", "revoke", second).code == 0
    assert daemon.run("approvals", "list").out == ""
    daemon.stop()
    assert daemon.run("approvals", "list").out == ""
