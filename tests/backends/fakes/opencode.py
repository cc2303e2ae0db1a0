"""A fake of OpenCode's server that does what the first word of a message says.

say, think, look FILE, run COMMAND, early COMMAND, outside COMMAND, write PATH, fetch URL, other NAME, loop, question,
sub COMMAND, unasked COMMAND, between, wait, die, garbage, twice, drop, dropask COMMAND, dropend, flood N, fail,
refuse, overflow, retry, cut, who, recall. FAKE_OPENCODE is a list of words: `old` speaks the older format; `dying` and
`deaf` are ways to start. Its sessions are stored next to the directory that they belong to.
"""

import asyncio
import base64
import itertools
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

from opencode_session import Session, permissions, questions, sessions
from opencode_transcript import MODES, OLD, Json, fresh, has_listener, streams

PASSWORD = base64.b64encode(f"opencode:{os.environ['OPENCODE_SERVER_PASSWORD']}".encode()).decode()
tasks: set["asyncio.Task[None]"] = set()
probes = itertools.count()


@asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncGenerator[None]:
    try:
        yield
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        streams.discard(writer)
        writer.close()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with closing(writer):
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, target, _ = head[0].split(" ")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            where = urlsplit(target)
            if headers.get("authorization") != f"Basic {PASSWORD}":
                respond(writer, 401, {})
            elif where.path == "/global/event":
                await stream_to(reader, writer)
                return
            else:
                directory = parse_qs(where.query).get("directory", ["/"])[0]
                status, said = await answer(method, where.path, directory, json.loads(body or b"{}"))
                respond(writer, status, said)
            await writer.drain()


def respond(writer: asyncio.StreamWriter, status: int, said: object) -> None:
    page = isinstance(said, str)
    body = b"" if status == 204 else said.encode() if isinstance(said, str) else json.dumps(said).encode()
    kind = "text/html" if page else "application/json"
    writer.write(f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)


async def stream_to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
    writer.write(b'data: {"payload": {"type": "server.connected", "properties": {}}}\n\n')
    streams.add(writer)
    has_listener.set()
    await reader.read()


PRICES = {"paid": {"input": 1, "output": 2}, "free": {"input": 0, "output": 0}, "plain": {}}
MODELS = {name: {"id": name, "cost": cost, "limit": {"context": 128_000}} for name, cost in PRICES.items()}
CATALOG = {"providers": [{"id": "fake", "models": MODELS}], "default": {"fake": "paid"}}


async def answer(method: str, path: str, directory: str, body: Json) -> tuple[int, object]:
    match [method, *path.strip("/").split("/")]:
        case ["GET", "global", "health"]:
            if next(probes) == 0 and "deaf" in MODES:
                await asyncio.Event().wait()
            return 200, {"healthy": True, "version": "fake"}
        case ["POST", "session"]:
            session = Session(fresh("ses"), directory)
            session.rules = body.get("permission", [])
            sessions[session.id] = session
            session.save()
            return 200, session.info()
        case ["GET", "config", *rest]:
            return 200, CATALOG if rest else {}
        case ["GET", "session", "status"]:
            return 200, {one.id: {"type": one.status} for one in sessions.values() if one.status != "idle"}
        case ["GET", "permission"]:
            return 200, [asked for asked, _ in permissions.values()]
        case ["POST", "permission", request_id, "reply"]:
            return (200, "<html>") if OLD else reply_to(request_id, body)
        case ["POST", "question", request_id, "reject"]:
            questions[request_id].set_result(None)
            return 200, True
        case [_, "session", session_id, *rest]:
            return answer_for(method, find(session_id, directory), rest, body)
        case _:
            return 404, {"name": "NotFoundError"}


def reply_to(request_id: str, body: Json) -> tuple[int, object]:
    if request_id not in permissions or permissions[request_id][1].done():
        return 404, {"name": "NotFoundError"}
    permissions[request_id][1].set_result(body)
    return 200, True


def find(session_id: str, directory: str) -> Session | None:
    if session_id not in sessions:
        session = Session(session_id, directory)
        if not session.file.exists():
            return None
        session.messages, session.rules = json.loads(session.file.read_text())
        sessions[session_id] = session
    return sessions[session_id]


def answer_for(method: str, session: Session | None, rest: list[str], body: Json) -> tuple[int, object]:
    if session is None:
        return 404, {"name": "NotFoundError", "data": {"message": "Session not found"}}
    match [method, *rest]:
        case ["GET"]:
            return 200, session.info()
        case ["GET", "message"]:
            return 200, session.messages
        case ["GET", "children"]:
            return 200, [one.info() for one in sessions.values() if one.parent == session.id]
        case ["POST", "prompt_async"]:
            session.work = asyncio.create_task(session.prompt(body))
            tasks.add(session.work)
            return 204, None
        case ["POST", "abort"]:
            if session.work is not None and session.status != "idle" and not session.work.done():
                session.work.cancel()
            return 200, True
        case ["POST", "permissions", request_id] if OLD:
            return reply_to(request_id, {"reply": body["response"]})
        case _:
            return 404, {"name": "NotFoundError"}


async def main() -> None:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if "dying" in MODES:
        sys.exit("no port is good enough")
    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=2**24)
    sys.stdout.write(f"a line before\nopencode server listening on http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
