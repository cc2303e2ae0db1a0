"""The minimum a Python agent must do: `floor.py raw|asyncio|httpx2 PORT PROMPTS none|NORMAL|FULL`.

It asks the model, does what the reply asks for (reads `a.txt`, or runs `true` in a shell), keeps the history as encoded
bytes, and asks again until there is an answer; with a log, it commits what happened before it continues. It checks
nothing. Prompts, one per line, are played at once. `floor.py relay PORT SOCKET` is a daemon that only asks, and
`floor.py thin SOCKET PROMPT` its client.

Invariants: each variant imports only what it needs, as its start is measured too.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    Turns = Generator[bytes, bytes, None]
    Record = Callable[[tuple[bytes, ...]], None]

END = b"\r\n0\r\n\r\n"
SHORT = 4096


def turns(prompt: str, record: "Record") -> "Turns":
    """Yields request bodies and receives replies."""
    history = [b'{"role":"user","content":"%b"}' % prompt.encode()]
    record((b'{"type":"user_message"}', b'{"type":"model_request"}'))
    while True:
        reply = yield b'{"model":"bench","stream":true,"tools":[],"messages":[%b]}' % b",".join(history)
        if b'"finish_reason":"tool_calls"' not in reply:
            record((b'{"type":"assistant_message"}', b'{"type":"run_complete"}'))
            return
        record((b'{"type":"assistant_message"}', b'{"type":"tool_call"}'))
        result = run_shell() if b'"run_shell"' in reply else read_file()
        record((b'{"type":"tool_result"}', b'{"type":"model_request"}'))
        history += [b'{"role":"assistant","tool_calls":[]}', b'{"role":"tool","content":"%b"}' % result]


def read_file() -> bytes:
    with open("a.txt", "rb") as file:  # noqa: PTH123 - pathlib would be half of what is measured
        return file.read().replace(b"\n", b"\\n")


def run_shell() -> bytes:
    reading, writing = os.pipe()
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "true"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, writing, 1)])
    os.close(writing)
    output = os.read(reading, 65536)
    os.close(reading)
    os.waitpid(pid, 0)
    return output


def recorder(level: str) -> "Record":
    """Commits rows to SQLite as our log does, with this `synchronous`; with `none` it does nothing."""
    if level == "none":
        return lambda events: None  # noqa: ARG005 - the signature of a recorder
    from pathlib import Path

    import apsw

    from buddy.log.database import connect

    db = connect(Path("floor.db"), apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    db.execute("PRAGMA journal_mode = WAL").get  # noqa: B018 - read to its end
    db.execute(f"PRAGMA synchronous = {level}")
    db.execute("CREATE TABLE IF NOT EXISTS events (seq INTEGER PRIMARY KEY, payload TEXT)")

    def record(events: tuple[bytes, ...]) -> None:
        db.execute("BEGIN IMMEDIATE")
        db.executemany("INSERT INTO events (payload) VALUES (CAST(? AS TEXT))", [(event,) for event in events])
        db.execute("COMMIT")

    return record


def frame(body: bytes) -> bytes:
    return b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


class Texts:
    """Counts the text in a stream's deltas: each is decoded to types, the cheapest way we know.

    A short reply is not looked into: the decoder's import would be the largest part of it.
    """

    decode: "Callable[[bytes], int] | None" = None

    def count(self, data: bytes) -> int:
        if len(data) < SHORT:
            return 0
        self.decode = decode = self.decode or decoder()
        return sum(decode(line[6:]) for line in data.split(b"\n") if line.startswith(b"data: {"))


def decoder() -> "Callable[[bytes], int]":
    import msgspec

    class Delta(msgspec.Struct, gc=False):
        content: str = ""

    class Choice(msgspec.Struct, gc=False):
        delta: Delta

    class Chunk(msgspec.Struct, gc=False):
        choices: tuple[Choice, ...]

    decode = msgspec.json.Decoder(Chunk).decode
    return lambda chunk: sum(len(choice.delta.content) for choice in decode(chunk).choices)


def ask_raw(port: int, work: "Turns") -> None:
    import socket

    connection = socket.create_connection(("127.0.0.1", port))
    body = next(work)
    while True:
        connection.sendall(frame(body))
        reply = bytearray()
        while not reply.endswith(END):
            reply += connection.recv(1 << 18)
        try:
            body = work.send(bytes(reply))
        except StopIteration:
            Texts().count(bytes(reply))
            return


async def ask_asyncio(port: int, work: "Turns", record: "Record") -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.set_exception_handler(lambda _, context: over.set_exception(context["exception"]))

    class Asking(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            self.transport = transport
            self.pieces = list[bytes]()
            self.rest = b""
            self.texts = Texts()
            transport.write(frame(next(work)))

        def data_received(self, data: bytes) -> None:
            events, cut, rest = (self.rest + data).rpartition(b"\n\n")
            if self.texts.count(events + cut):
                record((b'{"type":"assistant_token"}',))
            self.rest = rest
            self.pieces.append(data)
            if not data.endswith(END):
                return
            reply = b"".join(self.pieces)
            self.pieces.clear()
            try:
                self.transport.write(frame(work.send(reply)))
            except StopIteration:
                over.set_result(None)

    transport, _ = await loop.create_connection(Asking, "127.0.0.1", port)
    await over
    transport.close()


async def ask_httpx2(port: int, work: "Turns", _: "Record") -> None:
    import httpx2

    async with httpx2.AsyncClient(trust_env=False) as client:
        body = next(work)
        while True:
            async with client.stream("POST", f"http://127.0.0.1:{port}/v1/chat/completions", content=body) as response:
                pieces = [piece async for piece in response.aiter_raw()]
            reply = b"".join(pieces)
            try:
                body = work.send(reply)
            except StopIteration:
                Texts().count(reply)
                return


def ask_relay(path: str, prompt: str) -> None:
    """A client that leaves all work to a running process: only a socket, no protocol."""
    import socket

    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    connection.sendall(prompt.encode() + b"\n")
    connection.recv(65536)


async def relay(port: int, path: str) -> None:
    """That process: its connection to the model is already open, and prompts are forwarded as they arrive."""
    import asyncio

    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def serve(prompts: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        prompt = (await prompts.readline()).decode().strip()
        writer.write(frame(next(turns(prompt, recorder("none")))))
        answers.write(await reader.readuntil(END))
        answers.close()

    server = await asyncio.start_unix_server(serve, path)
    await server.serve_forever()


def main() -> None:
    if sys.argv[1] == "thin":
        ask_relay(sys.argv[2], sys.argv[3])
        return
    if sys.argv[1] == "relay":
        import asyncio

        asyncio.run(relay(int(sys.argv[2]), sys.argv[3]))
        return
    way, port, record = sys.argv[1], int(sys.argv[2]), recorder(sys.argv[4])
    works = [turns(prompt, record) for prompt in sys.argv[3].split("\n")]
    if way == "raw":
        ask_raw(port, works[0])
        return
    import asyncio

    async def all_at_once() -> None:
        ask = ask_asyncio if way == "asyncio" else ask_httpx2
        await asyncio.gather(*(ask(port, work, record) for work in works))

    asyncio.run(all_at_once())
    print(time.perf_counter_ns())


if __name__ == "__main__":
    main()
