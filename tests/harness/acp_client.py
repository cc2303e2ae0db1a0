"""An editor without a screen: a raw client of `buddy acp` over stdio, and a check of every line against the schema.

Invariants: every line in both directions is valid for its method; a wait ends after `PATIENCE`.
"""

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.harness.acp_schema import check
from tests.harness.processes import BUDDY, PATIENCE

Json = dict[str, Any]
Answer = Callable[[Json], Json | None]

#: What an editor without any extras announces.
PLAIN: Json = {}
#: What a complete editor announces.
COMPLETE: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "auth": {"terminal": True},
    "session": {"configOptions": {"boolean": {}}},
    "elicitation": {"form": {}, "url": {}},
    "_meta": {"terminal_output": True},
}


class RefusedError(Exception):
    """The agent answered with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data = error.get("data")


class AcpClient:
    """Use it as `with AcpClient(cwd, env) as editor`; leaving the block closes the agent's stdin."""

    def __init__(
        self,
        cwd: Path,
        env: Mapping[str, str],
        *arguments: str,
        capabilities: Json | None = None,
        command: Sequence[str] = BUDDY,
    ) -> None:
        self.cwd = cwd
        self.capabilities = PLAIN if capabilities is None else capabilities
        self.process = subprocess.Popen(
            [*command, "acp", *arguments], cwd=cwd, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.received: list[Json] = []
        """Every message of the agent, in order."""
        self.updates: list[Json] = []
        self.asked: list[Json] = []
        """The parameters of every request of the agent, with its method."""
        self.withdrawn: list[int] = []
        """The requests of the agent that it has cancelled."""
        self.answers: dict[str, Answer] = {"session/request_permission": choose("once")}
        self._methods: dict[int, str] = {}
        self._replies: dict[int, Json] = {}
        self._last_id = 0
        self._incoming: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        if self.process.poll() is None and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait(PATIENCE)
            self._reader.join(PATIENCE)
            assert self.process.stdout is not None
            self.process.stdout.close()

    # --- what a person does -----------------------------------------------------------------------------------------

    def initialize(self) -> Json:
        return self.call("initialize", protocolVersion=1, clientCapabilities=self.capabilities)

    def open(self) -> str:
        """Initialize, and start a session."""
        self.initialize()
        return self.new()["sessionId"]

    def new(self, **more: Any) -> Json:
        return self.call("session/new", **{"cwd": str(self.cwd), "mcpServers": [], **more})

    def prompt(self, session_id: str, *blocks: str | Json) -> str:
        """The stop reason, once the turn has ended."""
        return self.wait(self.begin_prompt(session_id, *blocks))["stopReason"]

    def begin_prompt(self, session_id: str, *blocks: str | Json) -> int:
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        return self.begin("session/prompt", sessionId=session_id, prompt=content)

    def text(self, kind: str = "agent_message_chunk") -> str:
        """What the agent has said so far."""
        return "".join(update["content"]["text"] for update in self.of(kind))

    def of(self, kind: str) -> list[Json]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    # --- messages ---------------------------------------------------------------------------------------------------

    def call(self, method: str, **params: Any) -> Json:
        return self.wait(self.begin(method, **params))

    def begin(self, method: str, **params: Any) -> int:
        self._last_id += 1
        self._methods[self._last_id] = method
        self.write(id=self._last_id, method=method, params=params)
        return self._last_id

    def cancel(self, session_id: str) -> None:
        self.write(method="session/cancel", params={"sessionId": session_id})

    def wait(self, request_id: int) -> Json:
        """The result of a request; what the agent asks meanwhile is answered."""
        self.wait_until(lambda: request_id in self._replies, f"the answer to {self._methods[request_id]}")
        reply = self._replies.pop(request_id)
        if "error" in reply:
            raise RefusedError(reply["error"])
        return reply["result"]

    def wait_until(self, holds: Callable[[], object], what: str) -> None:
        while not holds():
            try:
                line = self._incoming.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"no message while waiting for {what}; last: {self.received[-3:]}") from None
            assert line, f"the agent ended before {what}; last: {self.received[-3:]}"
            self._receive(json.loads(line))

    def write(self, raw: bytes = b"", **message: Any) -> None:
        """A message, which is checked, or raw bytes."""
        if message:
            message = {"jsonrpc": "2.0", **message}
            check(message, "agent", None)
        assert self.process.stdin is not None
        self.process.stdin.write(raw or json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._incoming.put(line)
        self._incoming.put(b"")

    def _receive(self, message: Json) -> None:
        assert message["jsonrpc"] == "2.0"
        self.received.append(message)
        if "method" not in message:
            if message["id"] in self._methods:
                check(message, "client", self._methods[message["id"]])
                self._replies[message["id"]] = message
            return
        check(message, "client", None)
        if "id" in message:
            self._answer(message)
        elif message["method"] == "session/update":
            self.updates.append(message["params"]["update"])
        elif message["method"] == "$/cancel_request":
            self.withdrawn.append(message["params"]["requestId"])

    def _answer(self, request: Json) -> None:
        method = request["method"]
        self.asked.append({"method": method, "id": request["id"], **request["params"]})
        answer = self.answers.get(method)
        if answer is None:
            error = {"code": -32601, "message": f"unknown method {method}"}
            self.write(id=request["id"], error=error)
            return
        result = answer(request["params"])
        if result is not None:
            self.write(id=request["id"], result=result)


def choose(option: str) -> Answer:
    """Answer permission requests with this option."""
    return lambda _: {"outcome": {"outcome": "selected", "optionId": option}}


def later(_: Json) -> None:
    """Do not answer yet."""
