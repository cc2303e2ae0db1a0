"""Nothing that a client sent is stored or repeated with a secret in it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.clients import attach, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.wire_client import Message

SECRET = "zx81-Kq7Lm9-canary-Lm9Kq7"


@pytest.fixture(scope="module")
def knowing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that knows a secret from its environment."""
    daemon = Daemon(tmp_path_factory.mktemp("echo"))
    daemon.start(CANARY_API_KEY=SECRET)
    try:
        yield daemon
    finally:
        daemon.stop()


def starting(**changes: object) -> Message:
    return {
        "mode": "interactive",
        "provider": "default",
        "sandboxProvider": "local",
        "repo": {"rootPath": "/"},
    } | changes


CUT = "x" * 70 + SECRET
"""Where a message shows only the first characters of it, only a part of the secret is shown."""
BAD: list[tuple[str, Message, str | None]] = [
    ("start_session", starting(mode=SECRET), None),
    ("start_session", starting(provider=SECRET), None),
    ("start_session", starting(provider=CUT), None),
    ("start_session", starting(sandboxProvider=f"ssh:{SECRET}"), None),
    ("start_session", starting(sandboxProvider=f"container:{SECRET}"), None),
    ("start_session", starting(sandboxProvider=SECRET), None),
    ("start_session", starting(repo={"rootPath": f"/nowhere/{SECRET}"}), None),
    ("start_session", starting(repo={"rootPath": SECRET}), None),
    ("start_session", starting(options={"profile": SECRET}), None),
    ("start_session", starting(options={"agentRuntime": SECRET}), None),
    ("start_session", starting(options={"sandbox": SECRET}), None),
    ("start_session", starting(options={"approvalPolicy": SECRET}), None),
    ("start_session", starting(options={"approvalPolicy": "x" * 30 + SECRET}), None),
    ("start_session", starting(options={"tmux": f"{SECRET}!"}), None),
    ("attach_session", {"sessionId": SECRET, "lastSeenSeq": 0}, SECRET),
    ("attach_session", {"sessionId": CUT, "lastSeenSeq": 0}, CUT),
    ("attach_session", {"sessionId": f"sess_{SECRET}", "lastSeenSeq": 0}, f"sess_{SECRET}"),
    ("get_snapshot", {}, SECRET),
    ("list_decisions", {"sessionId": SECRET}, None),
    ("create_project", {"name": SECRET, "rootPath": SECRET}, None),
    ("trust_folder", {"rootPath": SECRET, "trusted": True}, None),
    (SECRET, {}, None),
    (CUT + "x" * 40, {}, None),
]
IN_SESSION: list[tuple[str, Message]] = [
    ("submit_approval", {"runId": SECRET, "approvalId": SECRET, "decision": "approve"}),
    ("submit_approval", {"runId": "run_1", "approvalId": CUT, "decision": "approve"}),
    ("submit_approval", {"runId": "run_1", "approvalId": "appr_1", "decision": SECRET}),
    ("cancel_run", {"runId": SECRET}),
    ("cancel_run", {"runId": CUT}),
    ("steer_run", {"runId": SECRET, "text": "x"}),
    ("switch_model", {"profile": SECRET}),
    ("set_approval_policy", {"policy": SECRET}),
    ("read_blob", {"blob": SECRET}),
    ("read_blob", {"blob": CUT}),
    ("mint_token", {"role": SECRET}),
]


def parts(secret: str, length: int = 6) -> list[str]:
    return [secret[at : at + length] for at in range(len(secret) - length + 1)]


async def test_no_error_response_repeats_a_secret_or_a_part_of_one(knowing: Daemon) -> None:
    async with wire_client(knowing) as client:
        session_id = await start(client, knowing)
        asked = [*BAD, *((kind, {"sessionId": session_id, **payload}, session_id) for kind, payload in IN_SESSION)]
        refused = 0
        for kind, payload, of in asked:
            response = await client.response(await client.put(kind, payload, of))
            if not response["ok"]:
                refused += 1
                said = json.dumps(response, ensure_ascii=False)
                assert [part for part in parts(SECRET) if part in said] == [], (kind, payload, said)
        assert refused >= len(asked) - 3


async def test_a_message_id_with_a_secret_is_one_run_and_stored_nowhere(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.start(CANARY_API_KEY=SECRET)
    try:
        async with wire_client(daemon, name=f"me {SECRET}") as client:
            session_id = await start(client, daemon)
            first = await send(client, session_id, "count", f"msg_{SECRET}")
            assert await send(client, session_id, "count", f"msg_{SECRET}") == first
            await client.wait_for("run_complete")
            other = await send(client, session_id, "count", f"msg_{SECRET}.2")
            assert other != first
            await client.wait_for("run_complete")
            wait = await send(client, session_id, "make it", "msg_plain")
            asked = await client.wait_for("approval_required")
            queued: Message = {"clientMessageId": f"msg_{SECRET}.3", "text": "count"}
            position = (await client.ask("queue_message", queued, session_id))["position"]
            assert (await client.ask("queue_message", queued, session_id))["position"] == position
            decided = {"sessionId": session_id, "runId": wait, "approvalId": asked["payload"]["approvalId"]}
            await client.ask("submit_approval", {**decided, "decision": "deny"}, session_id)
            await client.wait_for("run_complete", lambda _: True)
        daemon.kill()
        daemon.start(CANARY_API_KEY=SECRET)
        async with wire_client(daemon) as client:
            await attach(client, session_id)
            assert await send(client, session_id, "count", f"msg_{SECRET}") == first
        daemon.kill()
        daemon.start()  # the secret is no longer known
        async with wire_client(daemon) as client:
            await attach(client, session_id)
            assert await send(client, session_id, "count", f"msg_{SECRET}") == first
        daemon.stop()
        for path in daemon.state_dir.rglob("*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    finally:
        daemon.stop()


async def test_what_is_listed_by_name_has_no_secret_in_it(knowing: Daemon) -> None:
    commands = knowing.workspace / ".agents/commands"
    commands.mkdir(parents=True)
    (commands / f"go-{SECRET}.md").write_text(f"---\ndescription: with {SECRET}\nargument-hint: {SECRET}\n---\ngo")
    root = {"rootPath": str(knowing.workspace)}
    async with wire_client(knowing) as client:
        await client.ask("trust_folder", {**root, "trusted": True})
        listed = await client.ask("list_commands", root)
        assert [(one["name"], one["description"], one["argumentHint"]) for one in listed["commands"]] == [
            ("go-[REDACTED]", "with [REDACTED]", "[REDACTED]")
        ]
        made = await client.ask("create_project", {"name": f"one {SECRET}", **root})
        await client.ask("update_project", {"projectId": made["projectId"], "name": f"two {SECRET}"})
        [project] = (await client.ask("list_projects"))["projects"]
        assert project["name"] == "two [REDACTED]"
    assert SECRET not in (knowing.state_dir / "projects.json").read_text()
