"""A server that speaks as OpenCode's does and does what the first word of a message says.

say, think, look FILE, run COMMAND, early COMMAND, outside COMMAND, write PATH, fetch URL, other NAME, loop, question,
sub COMMAND, unasked COMMAND, between, wait, die, garbage, twice, drop, dropask COMMAND, dropend, flood N, fail,
refuse, overflow, retry, cut, who, recall. FAKE_OPENCODE is a list of words: `old` is the older dialect; `dying` and
`deaf` are ways to start. Its sessions are kept beside the directory that they belong to.
"""

import asyncio
import base64
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]

MODES = os.environ.get("FAKE_OPENCODE", "").split()
OLD = "old" in MODES
PASSWORD = base64.b64encode(f"opencode:{os.environ['OPENCODE_SERVER_PASSWORD']}".encode()).decode()
streams: set[asyncio.StreamWriter] = set()
listened = asyncio.Event()
sessions: dict[str, "Session"] = {}
permissions: dict[str, tuple[Json, "asyncio.Future[Json]"]] = {}
questions: dict[str, "asyncio.Future[None]"] = {}
tasks: set["asyncio.Task[None]"] = set()
probes, numbers = itertools.count(), itertools.count()


def fresh(kind: str) -> str:
    """An id that is greater than all before it."""
    return f"{kind}_{time.time_ns():020d}{next(numbers):06d}"


def emit(kind: str, repeat: int = 1, **properties: Any) -> None:
    payload = {"type": kind, "properties": properties}
    line = f"data: {json.dumps({'directory': '/', 'payload': payload})}\n\n".encode()
    for stream in streams:
        for _ in range(repeat):
            stream.write(line)


class Session:
    def __init__(self, session_id: str, directory: str, parent: str = "") -> None:
        self.id, self.directory, self.parent = session_id, directory, parent
        self.messages: list[Json] = []
        self.rules: list[Json] = []
        self.status = "idle"
        self.work: asyncio.Task[None] | None = None
        self.repeat = 1
        self.file = Path(directory).parent / "fake-opencode" / session_id

    def save(self) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(json.dumps([self.messages, self.rules]))

    def info(self) -> Json:
        parent = {"parentID": self.parent} if self.parent else {}
        return {"id": self.id, "directory": self.directory, "permission": self.rules, **parent}

    # --- telling ----------------------------------------------------------------------------------------------------

    def tell(self, kind: str, **properties: Any) -> None:
        emit(kind, self.repeat, **({} if OLD and "part" in properties else {"sessionID": self.id}), **properties)

    def become(self, status: str, **more: Any) -> None:
        self.status = status
        self.tell("session.status", status={"type": status, **more})
        if status == "idle":
            self.tell("session.idle")

    def message(self, role: str, **more: Any) -> Json:
        info = {"id": fresh("msg"), "sessionID": self.id, "role": role, "time": {"created": 1}, **more}
        self.messages.append({"info": info, "parts": []})
        emit("message.updated", self.repeat, info=info, **({} if OLD else {"sessionID": self.id}))
        return self.messages[-1]

    def part(self, message: Json, **fields: Any) -> Json:
        part = {"id": fresh("prt"), "sessionID": self.id, "messageID": message["info"]["id"], **fields}
        message["parts"].append(part)
        self.tell("message.part.updated", part=part)
        return part

    def change(self, part: Json, delta: str | None = None, **fields: Any) -> None:
        part.update(fields)
        self.tell("message.part.updated", part=part, **({} if delta is None else {"delta": delta}))

    def say(self, message: Json, text: str, kind: str = "text") -> None:
        part = self.part(message, type=kind, text="", time={"start": 1})
        self.go_on(part, text)
        self.change(part, text=text, time={"start": 1, "end": 2})

    def go_on(self, part: Json, text: str) -> None:
        said = str(part["text"])
        for word in text.split(" "):
            piece = word if not said else f" {word}"
            said += piece
            if OLD:
                self.change(part, piece, text=said)
            else:
                names = {"messageID": part["messageID"], "partID": part["id"]}
                self.tell("message.part.delta", **names, field="text", delta=piece)

    def finish(self, message: Json, reason: str = "stop") -> None:
        tokens = {"input": 15, "output": 8, "reasoning": 2, "cache": {"read": 4, "write": 1}}
        self.part(message, type="step-finish", reason=reason, tokens=tokens, cost=0.25)
        message["info"] |= {"finish": reason, "tokens": tokens, "cost": 0.25, "time": {"created": 1, "completed": 2}}
        for _ in range(2):
            emit("message.updated", 1, info=message["info"], **({} if OLD else {"sessionID": self.id}))

    # --- working ----------------------------------------------------------------------------------------------------

    async def prompt(self, body: Json) -> None:
        text = body["parts"][0]["text"]
        word, _, rest = text.partition(" ")
        if word == "refuse":
            error = {"name": "UnknownError", "data": {"message": f"{rest}\n    at <anonymous> (x.js:1:1)"}}
            self.tell("session.error", error=error)
            return
        before = sum(message["info"]["role"] == "user" for message in self.messages)
        asked = self.message("user")
        self.part(asked, type="text", text=text)
        self.become("busy")
        message = self.message("assistant", parentID=asked["info"]["id"])
        self.become("busy")
        self.part(message, type="step-start")
        try:
            if "You were interrupted" in text:
                self.say(message, "went on")
            else:
                await self.act(message, word, rest, body, before)
        except asyncio.CancelledError:
            await self.abort(message)
            return
        self.save()
        self.become("idle")
        self.become("idle")

    async def abort(self, message: Json) -> None:
        """Idle at once, and what belongs to it only then."""
        error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
        if not OLD:
            self.tell("session.error", error=error)
        self.become("idle")
        await asyncio.sleep(0.01)
        if OLD:
            self.tell("session.error", error=error)
        for part in message["parts"]:
            if part["type"] == "tool" and part["state"]["status"] == "running":
                self.change(part, state={**part["state"], "status": "error", "error": "Tool execution aborted"})
            if part["type"] == "text" and "end" not in part["time"]:
                self.change(part, text="late", time={"start": 1, "end": 2})
        message["info"] |= {"error": error}
        emit("message.updated", 1, info=message["info"], sessionID=self.id)
        self.save()
        # By now it may be at work again.
        self.tell("session.status", status={"type": "idle"})
        self.tell("session.idle")

    async def act(self, message: Json, word: str, rest: str, body: Json, before: int) -> None:  # noqa: C901 - words
        match word:
            case "wait":
                self.go_on(self.part(message, type="text", text="", time={"start": 1}), "waiting for it\n")
                await asyncio.Event().wait()
            case "die":
                sys.stderr.write("met its end\n")
                sys.stderr.flush()
                os._exit(7)
            case "think":
                self.say(message, rest, "reasoning")
                self.say(message, "thought")
            case "garbage":
                for stream in streams:
                    stream.write(
                        b'data: {"no json\n\n: a comment\n\ndata: [1, 2]\n\ndata: {"payload": {"type": 5}}\n\n'
                        + (b"data: " + b"[" * 5000 + b"]" * 5000 + b"\n\n")
                    )
                self.tell("message.part.updated", part="none")
                self.tell("of.the.future", info=3)
                self.say(message, rest)
            case "twice":
                self.repeat = 2
                self.say(message, rest)
                await self.call(message, "read", {"filePath": "x"}, "contents")
                self.repeat = 1
            case "drop" | "dropend":
                await self.drop(message, rest, ends=word == "dropend")
            case "flood":
                part = self.part(message, type="text", text="", time={"start": 1})
                whole = " ".join(str(number) for number in range(int(rest)))
                self.go_on(part, whole)
                self.change(part, text=whole, time={"start": 1, "end": 2})
            case "cut":
                self.say(message, rest)
                self.finish(message, "length")
                return
            case "who":
                model: Json = body.get("model") or {}
                said = [body["agent"], f"{model.get('providerID')}/{model.get('modelID')}", body.get("system", "")]
                self.say(message, json.dumps(said))
            case "recall":
                self.say(message, f"{before} before")
            case _:
                await self.ask_or_fail(message, word, rest)
                return
        self.finish(message)

    async def ask_or_fail(self, message: Json, word: str, rest: str) -> None:
        match word:
            case "look":
                content = (Path(self.directory) / rest).read_text()
                message = await self.call(message, "read", {"filePath": rest}, content)
                self.say(message, "done")
            case "run" | "early" | "outside" | "dropask" | "write" | "patch" | "fetch" | "other" | "loop":
                message = await self.ask_for(message, word, rest)
                self.say(message, "done")
            case "between":
                text = self.part(message, type="text", text="", time={"start": 1})
                self.go_on(text, rest)
                call = self.start(message, "read")
                self.run(call, {"filePath": "x"})
                self.change(text, text=rest, time={"start": 1, "end": 2})
                self.end(call, "contents")
            case "unasked":
                message = await self.call(message, "bash", {"command": rest}, "")
                self.say(message, "done")
            case "sub":
                message = await self.delegate(message, rest)
                self.say(message, "done")
            case "question":
                request_id = fresh("que")
                questions[request_id] = asyncio.get_running_loop().create_future()
                self.tell("question.asked", id=request_id, questions=[{"question": rest, "options": []}])
                await questions[request_id]
                self.say(message, "nobody answered")
            case "fail":
                error = {"name": "APIError", "data": {"message": rest}}
                self.tell("session.error", error=error)
                message["info"] |= {"error": error}
                self.become("idle")
                emit("message.updated", 1, info=message["info"], sessionID=self.id)
                self.tell("session.error", error=error)
                return
            case "overflow":
                self.tell("session.error", error={"name": "ContextOverflowError", "data": {"message": "too much"}})
                message = self.message("assistant")
                self.say(message, rest)
            case "retry":
                self.become("retry", attempt=1, message="slow down", next=1)
                self.become("busy")
                self.say(message, rest)
            case _:
                self.say(message, rest)
        self.finish(message)

    async def drop(self, message: Json, text: str, *, ends: bool) -> None:
        """Lose the listeners in the middle; what is said while nobody listens is only in the messages."""
        half, _, rest = text.partition(" ")
        part = self.part(message, type="text", text="", time={"start": 1})
        self.go_on(part, half)
        await close_connections()
        whole = f"{half} {rest}"
        if ends:
            part.update(text=whole, time={"start": 1, "end": 2})
            self.finish(message)
            self.status = "idle"
            return
        lost, _, heard = rest.partition(" ")
        self.go_on(part, lost)
        await listened.wait()
        self.go_on(part, heard)
        self.change(part, text=whole, time={"start": 1, "end": 2})

    async def call(self, message: Json, tool: str, given: Json, output: str) -> Json:
        part = self.start(message, tool)
        self.run(part, given)
        self.end(part, output)
        self.finish(message, "tool-calls")
        self.become("busy")
        return self.message("assistant")

    def start(self, message: Json, tool: str) -> Json:
        return self.part(message, type="tool", tool=tool, callID="call_0", state={"status": "pending", "input": {}})

    def run(self, part: Json, given: Json) -> None:
        self.change(part, state={"status": "running", "input": given, "time": {"start": 1}})

    def end(self, part: Json, output: str, *, failed: bool = False) -> None:
        state = {**part["state"], "status": "error" if failed else "completed", "error" if failed else "output": output}
        self.change(part, state=state)

    async def ask_for(self, message: Json, word: str, rest: str) -> Json:
        tool, given, wanted, metadata = self.requested_tool(word, rest)
        part = self.start(message, tool)
        if word not in ("early", "dropask"):
            self.run(part, given)
        if word == "outside":
            outside = {"filepath": "/etc/x", "command": rest}
            if (refused := await self.ask(part, "external_directory", ["/etc/*"], outside)) is not None:
                return self.refuse(message, part, refused)
        if word == "dropask":
            await close_connections()
            self.run(part, given)
        asking = asyncio.ensure_future(self.ask(part if word != "loop" else None, wanted, [rest], metadata))
        if word == "early":
            await asyncio.sleep(0)
            self.run(part, given)
        try:
            refused = await asking
        finally:
            asking.cancel()
        if refused is not None:
            return self.refuse(message, part, refused)
        await self.do(part, word, rest)
        self.finish(message, "tool-calls")
        self.become("busy")
        return self.message("assistant")

    def requested_tool(self, word: str, rest: str) -> tuple[str, Json, str, Json]:
        match word:
            case "write":
                path = os.path.join(self.directory, rest)  # noqa: PTH118 - text
                given = {"filePath": path, "content": "new\n"}
                return "write", given, "edit", {"filepath": path, "diff": f"+++ {path}\n+new\n"}
            case "patch":
                files = [{"filePath": os.path.join(self.directory, name)} for name in rest.split()]  # noqa: PTH118 - text
                return "apply_patch", {"patchText": rest}, "edit", {"files": files}
            case "fetch":
                return "webfetch", {"url": rest, "format": "text"}, "webfetch", {"url": rest}
            case "other":
                return rest, {"x": 1}, rest, {}
            case "loop":
                return "read", {"filePath": "x"}, "doom_loop", {"tool": "read"}
            case _:
                return "bash", {"command": rest}, "bash", {} if OLD else {"command": rest}

    async def do(self, part: Json, word: str, rest: str) -> None:
        if word == "write":
            Path(part["state"]["input"]["filePath"]).write_text("new\n")  # noqa: ASYNC240 - a short one
            self.end(part, "Wrote file successfully.")
            return
        if word in ("patch", "fetch", "other", "loop"):
            self.end(part, "fetched")
            return
        process = await asyncio.create_subprocess_shell(rest, cwd=self.directory, stdout=subprocess.PIPE)
        try:
            output = (await process.communicate())[0].decode()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        self.change(part, state={**part["state"], "metadata": {"output": output[:3]}})
        self.change(part, state={**part["state"], "metadata": {"output": output}})
        self.end(part, output)

    async def ask(self, part: Json | None, permission: str, patterns: list[str], metadata: Json) -> str | None:
        """None if it may; otherwise the message for the model."""
        of = {"tool": {"messageID": part["messageID"], "callID": part["callID"]}} if part else {}
        request_id = fresh("per")
        asked = {"id": request_id, "permission": permission, "patterns": patterns, "metadata": metadata, **of}
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        permissions[request_id] = {**asked, "sessionID": self.id}, future
        self.tell("permission.asked", **asked)
        reply = await future
        del permissions[request_id]
        self.tell("permission.replied", requestID=request_id, reply=reply["reply"])
        return None if reply["reply"] == "once" else str(reply.get("message", ""))

    def refuse(self, message: Json, part: Json, why: str) -> Json:
        self.end(part, f"The user rejected: {why}", failed=True)
        self.finish(message, "tool-calls")
        return self.message("assistant")

    async def delegate(self, message: Json, command: str) -> Json:
        part = self.start(message, "task")
        self.run(part, {"prompt": command, "subagent_type": "general"})
        child = Session(fresh("ses"), self.directory, self.id)
        sessions[child.id] = child
        if command.startswith("true;"):  # nobody hears of it
            await close_connections()
        emit("session.created", info=child.info(), sessionID=child.id)
        child.become("busy")
        work = child.message("assistant")
        child.say(work, "said by a helper")
        after = await child.ask_for(work, "run", command)
        child.finish(after)
        child.become("idle")
        self.end(part, "the helper is done")
        self.finish(message, "tool-calls")
        return self.message("assistant")


async def close_connections() -> None:
    listened.clear()
    for stream in list(streams):
        streams.discard(stream)
        await stream.drain()
        stream.transport.abort()


# --- HTTP ------------------------------------------------------------------------------------------------------------


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
    listened.set()
    await reader.read()


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
        case ["GET", "session", "status"]:
            return 200, {one.id: {"type": one.status} for one in sessions.values() if one.status != "idle"}
        case ["GET", "permission"]:
            return 200, [asked for asked, _ in permissions.values()]
        case ["POST", "permission", request_id, "reply"]:
            return (200, "<html>") if OLD else replied(request_id, body)
        case ["POST", "question", request_id, "reject"]:
            questions[request_id].set_result(None)
            return 200, True
        case [_, "session", session_id, *rest]:
            return of_session(method, find(session_id, directory), rest, body)
        case _:
            return 404, {"name": "NotFoundError"}


def replied(request_id: str, body: Json) -> tuple[int, object]:
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


def of_session(method: str, session: Session | None, rest: list[str], body: Json) -> tuple[int, object]:
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
            return replied(request_id, {"reply": body["response"]})
        case _:
            return 404, {"name": "NotFoundError"}


async def main() -> None:
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if "dying" in MODES:
        sys.exit("no port is good enough")
    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=2**24)
    sys.stdout.write(f"a word before\nopencode server listening on http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
