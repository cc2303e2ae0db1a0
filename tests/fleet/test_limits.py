"""Limits of users hold over all nodes, also if several are asked at the same moment."""

import asyncio
from pathlib import Path

import pytest

from tests.fleet.nodes import FleetOf
from tests.harness.clients import decide, wire_client
from tests.harness.jwt_issuer import AUDIENCE, ISSUER, Issuer
from tests.harness.postgres import Postgres
from tests.harness.wire_client import ErrorResponse, Message, WireClient

pytestmark = pytest.mark.usefixtures("placement")

EACH = 4


async def attempt(client: WireClient, kind: str, payload: Message, session_id: str | None = None) -> str:
    """What came of it: the new session, accepted, or the code of the refusal."""
    try:
        answer = await client.ask(kind, payload, session_id)
    except ErrorResponse as error:
        return error.code
    return answer.get("sessionId") or "accepted"


@pytest.mark.slow
async def test_two_nodes_admit_no_more_than_one_would(tmp_path: Path, postgres: Postgres) -> None:
    issuer = Issuer()
    keys = issuer.write_keys(tmp_path / "jwks.json")
    auth = f'[auth]\nmode = "jwt"\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks_file = "{keys}"\n'
    limits = "[limits.user]\nsessions = 3\nruns = 1\n"
    fleet = FleetOf(tmp_path, postgres, "a", "b", more=auth + limits)
    for daemon in fleet.nodes.values():
        daemon.flags = ["--listen", "127.0.0.1:0"]
    async with fleet:
        token = issuer.token("ann")
        async with (
            wire_client(fleet.nodes["a"], "websocket", token=token, name="console") as here,
            wire_client(fleet.nodes["b"], "websocket", token=token, name="console") as there,
        ):
            request: Message = {"mode": "interactive", "provider": "default", "sandboxProvider": "ssh:elsewhere"}
            request["repo"] = {"rootPath": str(fleet.workspace)}

            async def start_several(client: WireClient) -> list[str]:
                return [await attempt(client, "start_session", request) for _ in range(EACH)]

            both = await asyncio.gather(start_several(here), start_several(there))
            answers = [*both[0], *both[1]]
            started = [answer for answer in answers if answer.startswith("sess_")]
            assert len(started) == 3
            assert sorted(set(answers) - set(started)) == ["OVERLOADED"]
            # One run, whichever node it is asked of.
            asked = zip((here, there), started[:2], strict=True)
            sent = await asyncio.gather(
                *(attempt(client, "send_user_message", message(one), one) for client, one in asked)
            )
            assert sorted(sent) == ["OVERLOADED", "accepted"]
            running = (here, there)[sent.index("accepted")]
            await decide(running, await running.wait_for("approval_required"), "deny")
            await running.wait_for("run_complete")
        assert await fleet.violations(*started) == []


def message(session_id: str) -> Message:
    return {"sessionId": session_id, "clientMessageId": f"msg_{session_id[5:]}", "text": "make it"}
