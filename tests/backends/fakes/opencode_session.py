"""What the fake OpenCode does with a message, by its first word."""

import asyncio
import base64
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from opencode_transcript import OLD, Json, Transcript, close_connections, emit, fresh, has_listener, streams

sessions: dict[str, "Session"] = {}
permissions: dict[str, tuple[Json, "asyncio.Future[Json]"]] = {}
questions: dict[str, "asyncio.Future[None]"] = {}


def read_part(part: Json) -> str:
    """Its text; of an image, its type and the beginning of its digest."""
    if part["type"] == "text":
        return part["text"]
    content = base64.b64decode(part["url"].removeprefix(f"data:{part['mime']};base64,"), validate=True)
    return f"<{part['mime']} {hashlib.sha256(content).hexdigest()[:8]}>"


class Session(Transcript):
    def __init__(self, session_id: str, directory: str, parent: str = "") -> None:
        super().__init__(session_id, directory, parent)
        self.work: asyncio.Task[None] | None = None

    async def prompt(self, body: Json) -> None:
        text = " ".join(map(read_part, body["parts"]))
        makes_again = "have not started" in text
        word, _, rest = (text.strip().split("\n")[-1] if makes_again else text).partition(" ")
        if word == "blind" and len(body["parts"]) > 1:
            word, rest = "refuse", "the image is too large"
        if word == "refuse":
            error = {"name": "UnknownError", "data": {"message": f"{rest}\n    at <anonymous> (x.js:1:1)"}}
            self.report("session.error", error=error)
            return
        before = sum(message["info"]["role"] == "user" for message in self.messages)
        asked = self.message("user")
        self.part(asked, type="text", text=text)
        self.set_status("busy")
        chosen = body.get("model") or {"providerID": "fake", "modelID": "paid"}
        message = self.message("assistant", parentID=asked["info"]["id"], **chosen)
        self.set_status("busy")
        self.part(message, type="step-start")
        try:
            if "You were interrupted" in text and not makes_again:
                self.say(message, "went on")
            else:
                await self.act(message, word, rest, body, before)
        except asyncio.CancelledError:
            await self.abort(message)
            return
        self.save()
        self.set_status("idle")
        self.set_status("idle")

    async def abort(self, message: Json) -> None:
        """Idle at once; the events of the aborted message follow."""
        error = {"name": "MessageAbortedError", "data": {"message": "Aborted"}}
        if not OLD:
            self.report("session.error", error=error)
        self.set_status("idle")
        await asyncio.sleep(0.01)
        if OLD:
            self.report("session.error", error=error)
        for part in message["parts"]:
            if part["type"] == "tool" and part["state"]["status"] == "running":
                self.change(part, state={**part["state"], "status": "error", "error": "Tool execution aborted"})
            if part["type"] == "text" and "end" not in part["time"]:
                self.change(part, text="late", time={"start": 1, "end": 2})
        message["info"] |= {"error": error}
        emit("message.updated", 1, info=message["info"], sessionID=self.id)
        self.save()
        # By now it may be working on the next message.
        self.report("session.status", status={"type": "idle"})
        self.report("session.idle")

    async def act(self, message: Json, word: str, rest: str, body: Json, before: int) -> None:
        match word:
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
            case "wait" | "die" | "think" | "garbage" | "twice" | "drop" | "dropend" | "flood":
                await self.stream(message, word, rest)
            case _:
                await self.ask_or_fail(message, word, rest)
                return
        self.finish(message)

    async def stream(self, message: Json, word: str, rest: str) -> None:
        match word:
            case "wait":
                self.append_text(self.part(message, type="text", text="", time={"start": 1}), "waiting for it\n")
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
                self.report("message.part.updated", part="none")
                self.report("of.the.future", info=3)
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
                complete = " ".join(str(number) for number in range(int(rest)))
                self.append_text(part, complete)
                self.change(part, text=complete, time={"start": 1, "end": 2})
            case _:
                raise ValueError(word)

    async def run_unasked(self, message: Json, command: str) -> Json:
        return await self.call(message, "bash", {"command": command}, "")

    async def lack(self, message: Json, tool: str) -> Json:
        """A call of a tool that it does not have."""
        state = {"input": {"tool": tool, "error": "no such tool"}, "time": {"start": 1, "end": 2}}
        call = self.part(message, type="tool", tool=tool, callID="call-0", state={"status": "pending", "input": {}})
        self.change(call, tool="invalid", state={"status": "running", **state})
        output = "The arguments provided to the tool are invalid: no such tool"
        self.change(call, state={"status": "completed", "output": output, **state})
        return message

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
                self.append_text(text, rest)
                call = self.start(message, "read")
                self.run(call, {"filePath": "x"})
                self.change(text, text=rest, time={"start": 1, "end": 2})
                self.end(call, "contents")
            case "unasked" | "lacks":
                message = await (self.lack(message, rest) if word == "lacks" else self.run_unasked(message, rest))
                self.say(message, "done")
            case "sub":
                message = await self.delegate(message, rest)
                self.say(message, "done")
            case "question":
                request_id = fresh("que")
                questions[request_id] = asyncio.get_running_loop().create_future()
                self.report("question.asked", id=request_id, questions=[{"question": rest, "options": []}])
                await questions[request_id]
                self.say(message, "nobody answered")
            case "fail":
                error = {"name": "APIError", "data": {"message": rest}}
                self.report("session.error", error=error)
                message["info"] |= {"error": error}
                self.set_status("idle")
                emit("message.updated", 1, info=message["info"], sessionID=self.id)
                self.report("session.error", error=error)
                return
            case "overflow":
                self.report("session.error", error={"name": "ContextOverflowError", "data": {"message": "too much"}})
                message = self.message("assistant")
                self.say(message, rest)
            case "retry":
                self.set_status("retry", attempt=1, message="slow down", next=1)
                self.set_status("busy")
                self.say(message, rest)
            case _:
                self.say(message, rest)
        self.finish(message)

    async def drop(self, message: Json, text: str, *, ends: bool) -> None:
        """Lose the listeners midway; what happens while nobody listens is only in the messages."""
        half, _, rest = text.partition(" ")
        part = self.part(message, type="text", text="", time={"start": 1})
        self.append_text(part, half)
        await close_connections()
        complete = f"{half} {rest}"
        if ends:
            part.update(text=complete, time={"start": 1, "end": 2})
            self.finish(message)
            self.status = "idle"
            return
        lost, _, heard = rest.partition(" ")
        self.append_text(part, lost)
        await has_listener.wait()
        self.append_text(part, heard)
        self.change(part, text=complete, time={"start": 1, "end": 2})

    async def call(self, message: Json, tool: str, given: Json, output: str) -> Json:
        part = self.start(message, tool)
        self.run(part, given)
        self.end(part, output)
        self.finish(message, "tool-calls")
        self.set_status("busy")
        return self.message("assistant")

    def start(self, message: Json, tool: str) -> Json:
        return self.part(message, type="tool", tool=tool, callID="call_0", state={"status": "pending", "input": {}})

    def run(self, part: Json, given: Json) -> None:
        self.change(part, state={"status": "running", "input": given, "time": {"start": 1}})

    def end(self, part: Json, output: str, *, failed: bool = False) -> None:
        state = {**part["state"], "status": "error" if failed else "completed", "error" if failed else "output": output}
        self.change(part, state=state)

    async def ask_for(self, message: Json, word: str, rest: str) -> Json:
        tool, given, wanted, metadata = self.request_for(word, rest)
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
        self.set_status("busy")
        return self.message("assistant")

    def request_for(self, word: str, rest: str) -> tuple[str, Json, str, Json]:
        """The tool, its arguments, the permission to ask for and its metadata."""
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
            Path(part["state"]["input"]["filePath"]).write_text("new\n")  # noqa: ASYNC240 - a short write
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
        """None if it was allowed, else the message for the model."""
        of = {"tool": {"messageID": part["messageID"], "callID": part["callID"]}} if part else {}
        request_id = fresh("per")
        asked = {"id": request_id, "permission": permission, "patterns": patterns, "metadata": metadata, **of}
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        permissions[request_id] = {**asked, "sessionID": self.id}, future
        self.report("permission.asked", **asked)
        reply = await future
        del permissions[request_id]
        self.report("permission.replied", requestID=request_id, reply=reply["reply"])
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
        if command.startswith("true;"):  # nobody is notified of it
            await close_connections()
        emit("session.created", info=child.info(), sessionID=child.id)
        child.set_status("busy")
        work = child.message("assistant")
        child.say(work, "said by a helper")
        after = await child.ask_for(work, "run", command)
        child.finish(after)
        child.set_status("idle")
        self.end(part, "the helper is done")
        self.finish(message, "tool-calls")
        return self.message("assistant")
