"""A daemon killed in the middle of a reply, over every wire: the run goes on, the image is sent again, and what only
the server understands returns to it byte for byte, also from a fork and after a compaction."""

import asyncio
import base64
import hashlib
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.faults.scenario import left_behind
from tests.harness.checker import Recorded, check
from tests.harness.clients import attach, read_log, send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.dialects import DIALECTS, KEY, Dialect, calls, says
from tests.harness.fake_model import Answer, Chunk, FakeModel, Request
from tests.harness.files import contents_of, read_ledger
from tests.harness.logs import read_state_dir
from tests.harness.pictures import png
from tests.harness.processes import CANARY, PATIENCE
from tests.harness.scripts import MARK, write_config
from tests.harness.wire_client import Message, WireClient

every = pytest.mark.parametrize("dialect", DIALECTS, ids=[dialect.name for dialect in DIALECTS])
IMAGE = png(30, 20, filler=3000)
ENCODED = base64.b64encode(IMAGE).decode()
CALLS = [("run_shell", msgspec.json.encode({"command": MARK}).decode()), ("read_file", '{"path": "a.txt"}')]


def signature(name: str) -> str:
    """As long and as random as real ones are; none of it may be taken for a secret."""
    return base64.b64encode(b"".join(hashlib.sha512(b"%d" % at + name.encode()).digest() for at in range(6))).decode()


FIRST, SECOND = signature("first"), signature("second")
REASONING = f'{{"type": "reasoning","id":"rs_1", "summary":[],"encrypted_content":"{FIRST}","n":1.50e3}}'
DETAILS = {"type": "reasoning.encrypted", "data": FIRST, "format": "x", "index": 0}
# What each API streams before the calls of a reply that was thought about.
THOUGHTS: dict[str, list[Chunk | str]] = {
    "completions": [{"choices": [{"index": 0, "delta": {"reasoning": "Hm", "reasoning_details": [DETAILS]}}]}],
    "responses": [f'{{"type":"response.output_item.done","output_index":7,"item":{REASONING}}}'],
    "anthropic": [
        {"type": "content_block_start", "index": 80, "content_block": {"type": "thinking", "thinking": "Hm"}},
        {"type": "content_block_delta", "index": 80, "delta": {"type": "signature_delta", "signature": FIRST[:99]}},
        {"type": "content_block_delta", "index": 80, "delta": {"type": "signature_delta", "signature": FIRST[99:]}},
        {"type": "content_block_start", "index": 81, "content_block": {"type": "redacted_thinking", "data": SECOND}},
    ],
    "gemini": [
        {"candidates": [{"index": 0, "content": {"parts": [{"text": "Hm", "thought": True}]}}]},
        {"candidates": [{"index": 0, "content": {"parts": [{"text": "First.", "thoughtSignature": FIRST}]}}]},
    ],
}
KEPT: dict[str, list[str]] = {
    "completions": [f'"data":"{FIRST}"'],
    "responses": [REASONING],
    "anthropic": [f'"thinking":"Hm","signature":"{FIRST}"', f'{{"type":"redacted_thinking","data":"{SECOND}"}}'],
    "gemini": [f'"thoughtSignature":"{FIRST}"'],
}


class Server:
    """A model behind one API: it answers with what is planned, and otherwise says that it is well."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.planned: list[Answer] = []
        self.asked: list[str] = []

    def answer(self, request: Request) -> Answer:
        if not request.raw:
            return Answer(status=404, body=b"{}")
        self.asked.append(request.raw.decode())
        return self.planned.pop(0) if self.planned else self.dialect.answer(says(self.dialect, "All is well."))

    def last(self) -> list[int]:
        """How often the last request had the image, and each thing that only the server understands."""
        return [self.asked[-1].count(kept) for kept in (ENCODED, *KEPT[self.dialect.name])]


async def killed_in_every_phase(daemon: Daemon, server: Server) -> tuple[str, str]:
    """A session with an image, and the run that is killed during the request, while thinking streams and between tool
    results."""
    dialect = server.dialect
    await asyncio.to_thread(daemon.start)
    async with wire_client(daemon) as client:
        session_id = await start(client, daemon, approvalPolicy="all")
        server.planned = [dialect.answer([*dialect.text("long " * 3000), *dialect.ends("stop")])]
        await finish(client, session_id, "first")
        server.planned = [dialect.answer([], hang="headers")]
        run_id = await send_image(client, session_id)
        await until(lambda: len(server.asked) == 2)
        daemon.kill()

    attached = asyncio.Event()  # what is streamed before is not sent again
    thoughts = dialect.thought("Let me look at it. " * 20)  # the last words wait, lest they be a part of a secret
    thinking = dialect.answer(thoughts, done=False, hang="body", gate=attached, gate_at=dialect.opens)
    server.planned = [thinking]
    await asyncio.to_thread(daemon.start)
    async with wire_client(daemon) as client:
        await attach(client, session_id)
        attached.set()
        await client.wait_for("thinking_token")
        daemon.kill()

    server.planned = [dialect.answer([*THOUGHTS[dialect.name], *calls(dialect, *CALLS)])]
    daemon.launch(BUDDY_FAULT="result.emitted:1:kill")
    assert await asyncio.to_thread(daemon.wait) == -signal.SIGKILL
    return session_id, run_id


@pytest.mark.slow
@every
async def test_a_daemon_killed_in_the_middle_of_a_reply_sends_all_of_it_again(tmp_path: Path, dialect: Dialect) -> None:
    server = Server(dialect)
    async with FakeModel(server.answer) as model:
        daemon = Daemon(tmp_path)
        profile = {"api": dialect.name, "api_base_url": model.base_url, "api_key": KEY, "model": "m", "vision": True}
        tables = {"agent": {"model": "wire"}, "models.wire": {**profile, "context_limit": 128_000}}
        write_config(daemon.config, daemon.folder / "script.json", **tables)
        try:
            session_id, run_id = await killed_in_every_phase(daemon, server)
            await asyncio.to_thread(daemon.start)
            async with wire_client(daemon) as client:
                await attach(client, session_id)
                done = await client.wait_for("run_complete", lambda payload: payload["runId"] == run_id)
                assert done["payload"]["outcome"] == "success"
                assert len(server.asked) == 5
                assert server.last() == [1] * (1 + len(KEPT[dialect.name]))
                await continue_elsewhere(client, server, session_id)
        finally:
            await asyncio.to_thread(daemon.stop)
    assert await violations(daemon) == []
    assert [sent.count(ENCODED) for sent in server.asked[1:5]] == [1] * 4


async def continue_elsewhere(client: WireClient, server: Server, session_id: str) -> None:
    """In a fork, and after a compaction that leaves the turn as it is."""
    expected = server.last()
    last_seq = (await read_log(client, session_id))[-1]["seq"]
    fork = await client.ask("fork_session", {"seq": last_seq}, session_id)
    await attach(client, fork["sessionId"], last_seq, fork["attachToken"])
    await finish(client, fork["sessionId"], "in the fork")
    assert server.last() == expected
    for text in ("second", "third"):
        await finish(client, session_id, text)
        assert server.last() == expected
    server.planned = [server.dialect.answer(says(server.dialect, "A summary."))]
    shorter = await client.ask("compact_session", {}, session_id)
    assert shorter["afterTokens"] < shorter["beforeTokens"]
    await finish(client, session_id, "after the compaction")
    assert ["long long" in sent for sent in server.asked[-2:]] == [True, False]
    assert server.last() == expected


async def finish(client: WireClient, session_id: str, text: str) -> None:
    run_id = await send(client, session_id, text)
    done = await client.wait_for("run_complete", lambda payload: payload["runId"] == run_id)
    assert done["payload"]["outcome"] == "success"


async def send_image(client: WireClient, session_id: str) -> str:
    brought = await client.ask("upload_blob", {"data": ENCODED, "last": True}, session_id)
    shown: Message = {"attachments": [{"blob": brought["blob"]}], "clientMessageId": "msg_image"}
    message = {"sessionId": session_id, "text": "What is this?", **shown}
    return (await client.ask("send_user_message", message, session_id))["runId"]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110 - the requests of a server that runs here, in this loop
            await asyncio.sleep(0.01)


async def violations(daemon: Daemon) -> list[str]:
    """What the checker says of all that is left, once the daemon has stopped."""
    log = await read_state_dir(daemon.state_dir)
    recorded = Recorded(
        log, (), read_ledger(daemon.workspace), secrets=(CANARY, KEY), sinks=contents_of(daemon.state_dir)
    )
    return [*check(recorded), *left_behind(recorded)]
