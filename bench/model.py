"""The measuring model: a loopback server that answers at once by the script in the prompt, and times its clients.

`[[bench KEY turns=10 call=read_file args=… parallel=2 deltas=20 think=0.1]]` anywhere in the first message is a script:
`turns` replies that call the tool (`parallel` of them each, `args` percent-encoded), then an answer of `deltas`
words; every reply `think` seconds after its request. With `fill` and `size`, that much of the text `fill` is the
answer, in one delta (with `raw=1`, the data of an event before it), or takes the place of `@fill` in the arguments.
A key is one conversation. `GET /bench/KEY` gives its requests.

Invariants: a request is received when its last byte is here, and a reply is sent when its last write begins
(where the client reads slower than that, when its last byte left). Nothing that is done between the two depends on who
asks. A request without tools (somebody wants a title) is answered with a word and not counted.
"""

import asyncio
import contextlib
import gc
import re
import sys
from time import perf_counter_ns
from typing import NamedTuple
from urllib.parse import quote, unquote

from bench.replies import Api, Call, call, complete, say, say_at_once, send_data

# As wide as any turn number: a reply is built once, then only its number is filled in.
FIRST = "000000"
_TAG = re.compile(rb"\[\[bench ([^\]]*)\]\]")
_MODELS = complete({"object": "list", "data": [{"id": "bench", "object": "model", "owned_by": "bench"}], "models": []})
_MISSING = complete({"error": {"message": "not found"}}, "404 Not Found")


class Script(NamedTuple):
    """What a prompt asks for."""

    key: str
    turns: int = 0
    call: str = ""
    arguments: str = "{}"
    parallel: int = 1
    deltas: int = 1
    think: float = 0.0
    fill: str = ""
    size: int = 0
    raw: int = 0

    def prompt(self) -> str:
        """The prompt text that makes the model play this script."""
        words = [f"turns={self.turns}", f"parallel={self.parallel}", f"deltas={self.deltas}", f"think={self.think}"]
        if self.fill:
            words += [f"fill={quote(self.fill)}", f"size={self.size}", f"raw={self.raw}"]
        return f"[[bench {self.key} call={self.call} args={quote(self.arguments)} {' '.join(words)}]]"

    def filling(self) -> str:
        """The text `fill` over and over, `size` characters of it."""
        return (self.fill * (self.size // max(1, len(self.fill)) + 1))[: self.size]


def parse(tag: str) -> Script:
    key, *words = tag.split()
    given = dict(word.split("=", 1) for word in words)
    return Script(
        key,
        int(given.get("turns", 0)),
        given.get("call", ""),
        unquote(given.get("args", "{}")),
        int(given.get("parallel", 1)),
        int(given.get("deltas", 1)),
        float(given.get("think", 0)),
        unquote(given.get("fill", "")),
        int(given.get("size", 0)),
        int(given.get("raw", 0)),
    )


class Conversation:
    """One script being played; `requests` holds when each was received, and when its reply was sent."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[list[int]] = []

    def reply(self, api: Api, *, stream: bool) -> bytes:
        script, turn = self.script, len(self.requests)
        if turn > script.turns:
            if not script.fill or script.call:
                return say(api, script.deltas, stream=stream)
            if script.raw:
                return send_data(script.filling()) if turn == 1 else say(api, script.deltas, stream=stream)
            return say_at_once(script.filling())
        arguments = script.arguments.replace("@fill", script.filling())
        wanted = tuple(Call(f"call_{FIRST}_{at}", script.call, arguments) for at in range(script.parallel))
        return call(api, wanted, stream=stream).replace(b"call_" + FIRST.encode(), b"call_%06d" % turn)


class Model:
    """All conversations by their tag."""

    def __init__(self) -> None:
        self._by_tag: dict[bytes, Conversation] = {}
        self._by_key: dict[str, Conversation] = {}

    def find(self, body: bytes) -> Conversation | None:
        found = _TAG.search(body)
        if found is None or b'"tools"' not in body:
            return None
        conversation = self._by_tag.get(found[1])
        if conversation is None:
            conversation = self._by_tag[found[1]] = Conversation(parse(found[1].decode()))
            self._by_key[conversation.script.key] = conversation
        return conversation

    def requests(self, key: str) -> list[list[int]]:
        conversation = self._by_key.get(key)
        return conversation.requests if conversation else []


class Connection(asyncio.Protocol):
    """Handles one request after another."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._received = bytearray()
        self._unsent: list[int] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        # So that `resume_writing` is called at the last byte and not before.
        transport.set_write_buffer_limits(high=0)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        now = perf_counter_ns()
        self._received += data
        end = self._received.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = bytes(self._received[:end]).lower()
        if b"transfer-encoding: chunked" in head:
            if not self._received.endswith(b"\r\n0\r\n\r\n"):
                return
        elif len(self._received) < end + _length(head):
            return
        body = bytes(self._received[end:])
        self._received.clear()
        self._answer(head, body, now)

    def resume_writing(self) -> None:
        if self._unsent is not None:
            self._unsent[1] = perf_counter_ns()
            self._unsent = None

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._transport = None

    def _answer(self, head: bytes, body: bytes, now: int) -> None:
        method, path, _ = head.split(b" ", 2)
        if method == b"get":
            self._write(self._get(path.decode()))
            return
        api: Api = "responses" if path.endswith(b"/responses") else "completions"
        stream = b'"stream":true' in body or b'"stream": true' in body
        conversation = self._model.find(body)
        if conversation is None:
            self._write(say(api, 1, stream=stream))
            return
        request = [now, now]
        conversation.requests.append(request)
        reply = conversation.reply(api, stream=stream)
        if conversation.script.think:
            asyncio.get_running_loop().call_later(conversation.script.think, self._send, reply, request)
        else:
            self._send(reply, request)

    def _send(self, reply: bytes, request: list[int]) -> None:
        request[1] = perf_counter_ns()
        self._write(reply)
        if self._transport is not None and self._transport.get_write_buffer_size():
            self._unsent = request

    def _write(self, reply: bytes) -> None:
        if self._transport is not None:
            self._transport.write(reply)

    def _get(self, path: str) -> bytes:
        if path.startswith("/bench/"):
            return complete(self._model.requests(path.removeprefix("/bench/")))
        return _MODELS if path.endswith("/models") else _MISSING


def _length(head: bytes) -> int:
    found = re.search(rb"\r\ncontent-length: *(\d+)", head)
    return int(found[1]) if found else 0


async def serve() -> None:
    """Serve until stdin is closed; the port is printed to stdout."""
    loop, model = asyncio.get_running_loop(), Model()
    server = await loop.create_server(lambda: Connection(model), "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    gc.disable()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve())
