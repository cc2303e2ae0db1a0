"""What the fake OpenCode knows and streams: its sessions, their messages, and the events about them."""

import asyncio
import itertools
import json
import os
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

MODES = os.environ.get("FAKE_OPENCODE", "").split()
OLD = "old" in MODES
streams: set[asyncio.StreamWriter] = set()
has_listener = asyncio.Event()
numbers = itertools.count()


def fresh(kind: str) -> str:
    """An id that is greater than all before it."""
    return f"{kind}_{time.time_ns():020d}{next(numbers):06d}"


def emit(kind: str, repeat: int = 1, **properties: Any) -> None:
    payload = {"type": kind, "properties": properties}
    line = f"data: {json.dumps({'directory': '/', 'payload': payload})}\n\n".encode()
    for stream in streams:
        for _ in range(repeat):
            stream.write(line)


class Transcript:
    """The messages of one session; every change is reported to the streams."""

    def __init__(self, session_id: str, directory: str, parent: str = "") -> None:
        self.id, self.directory, self.parent = session_id, directory, parent
        self.messages: list[Json] = []
        self.rules: list[Json] = []
        self.status = "idle"
        self.repeat = 1
        self.file = Path(directory).parent / "fake-opencode" / session_id

    def save(self) -> None:
        self.file.parent.mkdir(exist_ok=True)
        self.file.write_text(json.dumps([self.messages, self.rules]))

    def info(self) -> Json:
        parent = {"parentID": self.parent} if self.parent else {}
        return {"id": self.id, "directory": self.directory, "permission": self.rules, **parent}

    def report(self, kind: str, **properties: Any) -> None:
        emit(kind, self.repeat, **({} if OLD and "part" in properties else {"sessionID": self.id}), **properties)

    def set_status(self, status: str, **more: Any) -> None:
        self.status = status
        self.report("session.status", status={"type": status, **more})
        if status == "idle":
            self.report("session.idle")

    def message(self, role: str, **more: Any) -> Json:
        info = {"id": fresh("msg"), "sessionID": self.id, "role": role, "time": {"created": 1}, **more}
        self.messages.append({"info": info, "parts": []})
        emit("message.updated", self.repeat, info=info, **({} if OLD else {"sessionID": self.id}))
        return self.messages[-1]

    def part(self, message: Json, **fields: Any) -> Json:
        part = {"id": fresh("prt"), "sessionID": self.id, "messageID": message["info"]["id"], **fields}
        message["parts"].append(part)
        self.report("message.part.updated", part=part)
        return part

    def change(self, part: Json, delta: str | None = None, **fields: Any) -> None:
        part.update(fields)
        self.report("message.part.updated", part=part, **({} if delta is None else {"delta": delta}))

    def say(self, message: Json, text: str, kind: str = "text") -> None:
        part = self.part(message, type=kind, text="", time={"start": 1})
        self.append_text(part, text)
        self.change(part, text=text, time={"start": 1, "end": 2})

    def append_text(self, part: Json, text: str) -> None:
        said = str(part["text"])
        for word in text.split(" "):
            piece = word if not said else f" {word}"
            said += piece
            if OLD:
                self.change(part, piece, text=said)
            else:
                names = {"messageID": part["messageID"], "partID": part["id"]}
                self.report("message.part.delta", **names, field="text", delta=piece)

    def finish(self, message: Json, reason: str = "stop") -> None:
        tokens = {"input": 15, "output": 8, "reasoning": 2, "cache": {"read": 4, "write": 1}}
        self.part(message, type="step-finish", reason=reason, tokens=tokens, cost=0.25)
        message["info"] |= {"finish": reason, "tokens": tokens, "cost": 0.25, "time": {"created": 1, "completed": 2}}
        for _ in range(2):
            emit("message.updated", 1, info=message["info"], **({} if OLD else {"sessionID": self.id}))


async def close_connections() -> None:
    has_listener.clear()
    for stream in list(streams):
        streams.discard(stream)
        await stream.drain()
        stream.transport.abort()
