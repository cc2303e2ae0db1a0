"""Several users of one daemon, by JSON Web Tokens: nobody learns of another's sessions, and limits are each user's."""

import base64
import json
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import jwt
import pytest
import websockets

from tests.harness.clients import attach, decide, read_log, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.jwt_issuer import AUDIENCE, ISSUER, Issuer, KeyServer
from tests.harness.scripts import MARK, section, shell
from tests.harness.web_client import WebClient
from tests.harness.wire_client import ErrorResponse, Message, WireClient

SCRIPT = [
    section("^count", {"text": "one two three"}),
    section("^make", shell(f"{MARK}; echo made"), {"text": "made"}),
    section("^spend", {"text": "expensive", "usage": {"input_tokens": 9, "output_tokens": 9, "cost_usd": 1.0}}),
]


def users_daemon(folder: Path, issuer: Issuer, *, keys: str = "", more: str = "") -> Daemon:
    daemon = Daemon(folder, script=SCRIPT, web=True)
    source = keys or f'jwks_file = "{issuer.write_keys(folder / "jwks.json").name}"'
    text = daemon.config.read_text()
    text += f'[auth]\nmode = "jwt"\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\n{source}\n{more}\n'
    daemon.config.write_text(text)
    return daemon


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[Daemon]:
    with users_daemon(tmp_path_factory.mktemp("users"), issuer) as running:
        yield running


def user(daemon: Daemon, issuer: Issuer, name: str) -> AbstractAsyncContextManager[WireClient]:
    return wire_client(daemon, "websocket", token=issuer.token(name), name="console")


async def refusal(client: WireClient, kind: str, payload: Message, session_id: str | None = None) -> str:
    with pytest.raises(ErrorResponse) as caught:
        await client.ask(kind, payload, session_id)
    return caught.value.code


async def test_a_user_starts_runs_and_finds_a_session(daemon: Daemon, issuer: Issuer) -> None:
    async with user(daemon, issuer, "ann") as ann:
        session_id = await start(ann, daemon)
        await send(ann, session_id, "make it")
        await decide(ann, await ann.wait_for("approval_required"))
        assert (await ann.wait_for("run_complete"))["payload"]["outcome"] == "success"
        started = next(event for event in ann.events if event["type"] == "session_started")
        assert started["payload"]["user"] == "ann"
    async with user(daemon, issuer, "ann") as again:
        assert [row["sessionId"] for row in (await again.ask("list_sessions"))["sessions"]] == [session_id]
        await attach(again, session_id)
        assert (await again.wait_for("run_complete"))["sessionId"] == session_id


async def test_another_user_finds_nothing(daemon: Daemon, issuer: Issuer) -> None:
    async with user(daemon, issuer, "bea") as bea, user(daemon, issuer, "cid") as cid:
        session_id = await start(bea, daemon)
        await send(bea, session_id, "make it")
        asked = await bea.wait_for("approval_required")
        assert (await cid.ask("list_sessions"))["sessions"] == []
        assert (await cid.ask("watch_sessions"))["sessions"] == []
        assert (await cid.ask("list_approvals", {"grants": True})) == {"approvals": []}
        assert (await cid.ask("list_decisions"))["decisions"] == []
        assert await refusal(cid, "attach_session", {"sessionId": session_id, "lastSeenSeq": 0}) == "SESSION_NOT_FOUND"
        for kind, payload in (
            ("read_events", {"after": 0, "limit": 10}),
            ("get_snapshot", {}),
            ("list_marks", {}),
            ("mint_token", {"role": "driver"}),
            ("read_blob", {"blob": "0" * 64, "offset": 0, "limit": 10}),
            ("rename_session", {"title": "mine now"}),
            ("fork_session", {"seq": 1}),
            ("delete_session", {}),
        ):
            assert await refusal(cid, kind, payload, session_id) == "SESSION_NOT_FOUND", kind
        decision = {"sessionId": session_id, "runId": asked["runId"], "decision": "approve"}
        decision["approvalId"] = asked["payload"]["approvalId"]
        assert await refusal(cid, "submit_approval", decision, session_id) == "SESSION_NOT_FOUND"
        assert len((await bea.ask("list_approvals"))["approvals"]) == 1
        await decide(bea, asked, "deny")
        await bea.wait_for("run_complete")
        assert [one["by"] for one in (await bea.ask("list_decisions"))["decisions"]] == ["console"]
        assert not [event for event in cid.events if event["type"] == "session_row"]


async def test_the_owners_sessions_are_hidden_from_users_and_not_the_other_way_round(
    daemon: Daemon, issuer: Issuer
) -> None:
    async with wire_client(daemon) as owner, user(daemon, issuer, "dot") as dot:
        own, theirs = await start(owner, daemon), await start(dot, daemon)
        assert [row["sessionId"] for row in (await dot.ask("list_sessions"))["sessions"]] == [theirs]
        assert await refusal(dot, "read_events", {"after": 0, "limit": 1}, own) == "SESSION_NOT_FOUND"
        listed = {row["sessionId"] for row in (await owner.ask("list_sessions", {"limit": 200}))["sessions"]}
        assert {own, theirs} <= listed
        assert await read_log(owner, theirs)


async def test_a_token_shares_one_session_with_another_user(daemon: Daemon, issuer: Issuer) -> None:
    async with user(daemon, issuer, "eve") as eve, user(daemon, issuer, "fay") as fay:
        session_id = await start(eve, daemon)
        token = (await eve.ask("mint_token", {"role": "observer"}, session_id))["attachToken"]
        await attach(fay, session_id, token=token)
        await fay.wait_for("session_started")
        assert [row["sessionId"] for row in (await fay.ask("list_sessions"))["sessions"]] == [session_id]
        message = {"sessionId": session_id, "clientMessageId": "msg_fay", "text": "count"}
        assert await refusal(fay, "send_user_message", message, session_id) == "ATTACH_FORBIDDEN"


async def test_users_run_no_errands_of_the_owner(daemon: Daemon, issuer: Issuer) -> None:
    async with user(daemon, issuer, "gus") as gus:
        for kind, payload in (
            ("shutdown", {}),
            ("trust_folder", {"rootPath": "/", "trusted": True}),
            ("open_web", {}),
            ("mint_web_link", {}),
        ):
            assert await refusal(gus, kind, payload) == "ATTACH_FORBIDDEN", kind
        status = await gus.ask("daemon_status")
        assert not {"config", "tokenFile"} & {name for name, value in status.items() if value}
        session_id = await start(gus, daemon)
        await send(gus, session_id, "make it")
        asked = await gus.wait_for("approval_required")
        always = {"sessionId": session_id, "runId": asked["runId"], "approvalId": asked["payload"]["approvalId"]}
        always |= {"decision": "approve", "scope": "always"}
        assert await refusal(gus, "submit_approval", always, session_id) == "ATTACH_FORBIDDEN"


async def test_users_have_their_own_projects(daemon: Daemon, issuer: Issuer) -> None:
    async with user(daemon, issuer, "hal") as hal, user(daemon, issuer, "ida") as ida:
        made = (await hal.ask("create_project", {"name": "app", "rootPath": str(daemon.workspace)}))["projectId"]
        assert (await ida.ask("list_projects"))["projects"] == []
        assert await refusal(ida, "delete_project", {"projectId": made}) == "INVALID_REQUEST"
        await ida.ask("create_project", {"name": "app", "rootPath": str(daemon.workspace)})
        assert [one["projectId"] for one in (await hal.ask("list_projects"))["projects"]] == [made]


async def test_tokens_that_are_not_the_issuers_are_refused(daemon: Daemon, issuer: Issuer) -> None:
    none = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
        for part in ({"alg": "none", "kid": issuer.key_id}, {"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "exp": 9e9})
    )
    shared_key = jwt.encode({"iss": ISSUER, "aud": AUDIENCE, "sub": "x", "exp": 9_000_000_000}, "s" * 32, "HS256")
    for token in (
        Issuer().token("mallory"),
        Issuer("key-2").token("mallory"),
        issuer.token("late", -60),
        issuer.token("lost", aud="another"),
        issuer.token("lost", iss="https://other.test/"),
        issuer.token("lost", sub=None),
        issuer.token("lost", exp=None),
        issuer.token(""),
        f"{none}.",
        shared_key,
        "a.b.c",
    ):
        with pytest.raises(websockets.InvalidStatus) as caught:
            await wire_client(daemon, "websocket", token=token).__aenter__()
        assert caught.value.response.status_code == 401


async def test_a_connection_ends_with_its_token(daemon: Daemon, issuer: Issuer) -> None:
    async with wire_client(daemon, "websocket", token=issuer.token("jo", -8)) as brief:  # 10 s of leeway
        await brief.ended()


async def test_the_console_knows_a_user_by_login_or_by_the_front(daemon: Daemon, issuer: Issuer) -> None:
    web, token = WebClient(daemon.port()), issuer.token("kim")
    assert (await web.get("/login")).status == 401
    by_front = (await web.get("/login", Authorization=f"Bearer {token}")).json()
    assert (by_front["role"], by_front["user"], by_front["sessionId"]) == ("user", "kim", None)
    assert (await web.log_in(token)).json() == by_front
    client = await web.client()
    assert (await client.ask("list_sessions"))["sessions"] == []
    await client.close()


async def test_who_did_what_is_in_the_audit(daemon: Daemon, issuer: Issuer) -> None:
    async with user(daemon, issuer, "lou") as lou:
        session_id = await start(lou, daemon)
        await send(lou, session_id, "count secretly")
        await lou.ask("list_sessions")
        await refusal(lou, "shutdown", {})
    path = daemon.state_dir / "logs" / "audit.log"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    mine = [line for line in lines if line["user"] == "lou"]
    shown = [(line["request"], line["ok"], line["error"], line["client"]) for line in mine]
    assert shown == [
        ("start_session", True, None, "console"),
        ("send_user_message", True, None, "console"),
        ("shutdown", False, "ATTACH_FORBIDDEN", "console"),
    ]
    assert mine[1]["sessionId"] == session_id
    assert {line["node"] for line in mine} != {""}
    assert "secretly" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_log_lines_name_the_node_and_the_session(daemon: Daemon) -> None:
    lines = [json.loads(line) for line in daemon.log().splitlines()]
    assert {line["node"] for line in lines} == {lines[0]["node"]}
    assert all(set(line) == {"time", "level", "logger", "node", "session", "message"} for line in lines)


async def test_keys_come_from_a_url_and_are_read_again_when_they_change(tmp_path: Path) -> None:
    with KeyServer(Issuer("old")) as server:
        first = server.issuer
        with users_daemon(tmp_path, first, keys=f'jwks_url = "{server.url}"') as daemon:
            async with user(daemon, first, "max") as known:
                await known.ask("ping")
            for _ in range(3):
                with pytest.raises(websockets.InvalidStatus):
                    await user(daemon, Issuer("unknown"), "max").__aenter__()
            assert server.reads <= 2


async def test_a_missing_key_file_is_named_at_start(tmp_path: Path, issuer: Issuer) -> None:
    daemon = users_daemon(tmp_path, issuer, keys='jwks_file = "nowhere.json"')
    assert daemon.launch().wait(60) == 64
    assert f"no file {tmp_path}/nowhere.json" in daemon.output()


async def test_limits_are_each_users_own(tmp_path: Path, issuer: Issuer) -> None:
    limits = "[limits.user]\nsessions = 2\nruns = 1\ncost_usd_per_day = 1.5\n"
    daemon = users_daemon(tmp_path, issuer, more=limits)
    with daemon:
        async with user(daemon, issuer, "nan") as nan, user(daemon, issuer, "oli") as oli:
            first, second = await start(nan, daemon), await start(nan, daemon)
            request: Message = {"mode": "interactive", "provider": "default", "sandboxProvider": "local"}
            request |= {"repo": {"rootPath": str(daemon.workspace)}}
            assert await refusal(nan, "start_session", request) == "OVERLOADED"
            assert await refusal(nan, "fork_session", {"seq": 1}, first) == "OVERLOADED"
            await send(nan, first, "make it")
            asked = await nan.wait_for("approval_required")
            message = {"sessionId": second, "clientMessageId": "msg_nan", "text": "count"}
            assert await refusal(nan, "send_user_message", message, second) == "OVERLOADED"
            theirs = await start(oli, daemon)
            await send(oli, theirs, "count")
            await oli.wait_for("run_complete")
            await decide(nan, asked, "deny")
            await nan.wait_for("run_complete")
            await nan.ask("delete_session", {}, second)
            await start(nan, daemon)
        async with user(daemon, issuer, "pam") as pam:
            session_id = await start(pam, daemon)
            await send(pam, session_id, "spend it")
            await pam.wait_for("run_complete")
            await send(pam, session_id, "spend it")
            done = await pam.wait_for("run_complete")
            assert done["payload"]["outcome"] in ("success", "failed")
            await pam.ask("delete_session", {}, session_id)
            other = await start(pam, daemon)
            message = {"sessionId": other, "clientMessageId": "msg_pam", "text": "spend it"}
            with pytest.raises(ErrorResponse, match="USD are spent today"):
                await pam.ask("send_user_message", message, other)
    with daemon:  # the day's cost is in the log
        async with user(daemon, issuer, "pam") as pam:
            other = await start(pam, daemon)
            message = {"sessionId": other, "clientMessageId": "msg_again", "text": "spend it"}
            with pytest.raises(ErrorResponse, match="USD are spent today"):
                await pam.ask("send_user_message", message, other)


@pytest.mark.slow
async def test_queued_messages_cost_no_more_than_what_is_left(tmp_path: Path, issuer: Issuer) -> None:
    daemon = users_daemon(tmp_path, issuer, more="[limits.user]\ncost_usd_per_day = 1.5\n")
    with daemon:
        async with user(daemon, issuer, "quinn") as quinn:
            session_id = await start(quinn, daemon)
            await send(quinn, session_id, "make it")
            asked = await quinn.wait_for("approval_required")
            for number in range(3):
                queued: Message = {"sessionId": session_id, "clientMessageId": f"msg_q{number}", "text": "spend it"}
                await quinn.ask("queue_message", queued, session_id)
            await decide(quinn, asked, "deny")
            outcomes = [(await quinn.wait_for("run_complete"))["payload"]["outcome"] for _ in range(4)]
            started = [event["payload"] for event in quinn.events if event["type"] == "run_started"]
            # With nothing left, the last one ends before the model is asked.
            assert outcomes[1:] == ["success", "success", "failed"]
            last = [event for event in quinn.events if event.get("runId") == started[3]["runId"]]
            assert "your daily cost limit is reached: 2.00 of 1.50 USD" in last[-1]["payload"]["summary"]
            assert "model_request" not in [event["type"] for event in last]


async def test_a_daemon_is_ready_until_it_stops(daemon: Daemon) -> None:
    web = WebClient(daemon.port())
    for path, status in (("/healthz", "ok"), ("/health", "ok"), ("/readyz", "ready"), ("/ready", "ready")):
        answer = await web.get(path, Host="load-balancer.internal")
        assert (answer.status, answer.json()) == (200, {"status": status})
