"""While one session works on something long, others get their turn: no callback of the event loop does much at once.

Counted in function calls, not in seconds.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from buddy import steps
from buddy.protocol.events import ApprovalRequired, RunComplete, ToolResult
from buddy.protocol.requests import SubmitApproval
from buddy.scrub import Scrubber
from tests.harness.models import StepModel, answer, asks_for, call
from tests.harness.runtime import checked_host

MOST_CALLS = 80_000
"""About ten milliseconds of small ones."""
SIZE = 70_000


class Calls:
    """How many functions the busiest callback has called, those in C included."""

    def __init__(self) -> None:
        self.most = 0
        self._count = 0

    def note(self, _frame: object, event: str, _argument: object) -> None:
        self._count += event in ("call", "c_call")

    def next(self) -> None:
        self.most, self._count = max(self.most, self._count), 0


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Generator[Calls]:
    calls = Calls()
    for text in HOSTILE.values():  # compiles what is needed
        Scrubber().text(text * 100)
    plain: Callable[[asyncio.Handle], None] = asyncio.Handle._run  # pyright: ignore[reportPrivateUsage] - where every callback starts

    def run(handle: asyncio.Handle) -> None:
        calls.next()
        plain(handle)

    with monkeypatch.context() as patch:
        patch.setattr(asyncio.Handle, "_run", run)
        patch.setattr(steps, "TURN", 0.0)  # a turn after each step, however fast this machine is
        sys.setprofile(calls.note)
        try:
            yield calls
        finally:
            sys.setprofile(None)


HOSTILE = {
    "users": "-u ",
    "flags": "--token ",
    "secrets": "secret=",
    "passwords": "pwd=",
    "headers": "authorization: bearer ",
    "lines": "secret=secret=\n",
    "overstruck": "a\b",
    "armour": "-----BEGIN RSA PRIVATE KEY-----\n",
}


def fill(text: str) -> str:
    return text * (SIZE // len(text))


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_long_reply_is_examined_in_turns(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with checked_host(tmp_path, StepModel(answer(fill(HOSTILE[name])))) as host, host.client() as client:
        host.runtime.scrubber.register("hunter2hunter2")
        await client.start()
        with counting(monkeypatch) as calls:
            await client.send("go")
            await client.wait_for(RunComplete)
    assert calls.most <= MOST_CALLS


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "new.txt", "content": fill("secret=")}),
        ("write_file", {"path": "new.txt", "content": [fill("a "), {"b": ["pwd=1 "] * 5_000}]}),
        ("unknown", {"list": ["secret=secret= "] * 5_000}),
        ("run_shell", {"command": f"yes -- --token | head -c {SIZE}"}),
        ("run_shell", {"command": fill("true | ")[:40_000] + "true"}),
    ],
)
async def test_a_long_call_is_worked_on_in_turns(
    tool: str, arguments: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = StepModel(asks_for(call(tool, arguments)), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="all")
        with counting(monkeypatch) as calls:
            await client.send("go")
            await client.wait_for(RunComplete)
        assert len(client.bodies(ToolResult)) == 1
    assert calls.most <= MOST_CALLS, json.dumps(arguments)[:100]


@pytest.mark.slow
async def test_a_long_question_is_asked_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = {"path": "new.txt", "content": fill("--token ")}
    model = StepModel(asks_for(call("write_file", arguments)), answer())
    async with checked_host(tmp_path, model) as host, host.client() as client:
        await client.start(approval_policy="ask")
        with counting(monkeypatch) as calls:
            run_id = await client.send("go")
            asked = await client.wait_for(ApprovalRequired)
            await client.api.approve(SubmitApproval(client.session_id, run_id, asked.approval_id, "approve"))
            await client.wait_for(RunComplete)
    assert calls.most <= MOST_CALLS


async def test_a_long_message_is_accepted_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with checked_host(tmp_path, StepModel(answer())) as host, host.client() as client:
        await client.start()
        with counting(monkeypatch) as calls:
            await client.send(fill("authorization: bearer "))
            await client.wait_for(RunComplete)
    assert calls.most <= MOST_CALLS
