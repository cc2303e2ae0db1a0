"""People who use a fleet while its nodes fail: each has a session, and goes to another gateway when one is silent.

Invariants: a message that was not answered is sent again with the same id; what a person has seen only grows; nobody
asks again for what was received before.
"""

import asyncio
import contextlib
import random
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TypeVar

from tests.fleet.nodes import FleetOf
from tests.harness.clients import attach, connect, decide, send
from tests.harness.wire_client import ErrorResponse, Message, WireClient

SILENT_SECONDS = 6.0
"""How long a gateway may say nothing before its client goes to another one; twice as long after each that did."""
LONGEST_SILENCE = 60.0
PATIENCE = 600.0
ENDINGS = ("approval_received", "approval_expired")

Answer = TypeVar("Answer")


class Person:
    """Sends messages one after the other, approves what is asked, and remembers what was promised."""

    texts: Sequence[str] = ("count", "make it", "twice", "drip", "linger")

    def __init__(self, fleet: FleetOf, number: int, seed: float) -> None:
        self.fleet = fleet
        self.number = number
        self.session_id = ""
        self.client: WireClient | None = None
        self.promised: dict[str, str] = {}  # the run of each message that was accepted
        self.counts: Counter[str] = Counter()
        self._chance = random.Random(seed)  # noqa: S311 - no secret
        self._seen: int = 0
        self._looked = 0
        self._asked: dict[str, Message] = {}
        self._done: dict[str, str] = {}
        self._refused: set[str] = set()
        self._history: deque[str] = deque(maxlen=20)
        self._silence = SILENT_SECONDS
        self._policy = self._chance.choice(["all", "ask"])

    async def begin(self) -> None:
        """Have a session."""
        await self._insist(self._begin)

    async def work(self, until: float, pause: float) -> None:
        """Use the session until then; the last run is waited for."""
        await self.begin()
        number = 0
        while time.monotonic() < until:
            number += 1
            await self._say(f"msg_{self.number}.{number}", self._chance.choice(self.texts))
            await self.between()
            await asyncio.sleep(self._chance.uniform(0, pause))

    async def between(self) -> None:
        """What else a person does after a message."""

    async def catch_up(self, last_seq: int) -> None:
        """Receive everything up to the end of the log."""
        await self._receive(lambda: self._seen >= last_seq)

    async def leave(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            await _close(client)

    async def _begin(self, client: WireClient) -> None:
        if not self.session_id:
            self.session_id = await self.fleet.start(client, approvalPolicy=self._policy)

    async def _say(self, message_id: str, text: str) -> None:
        run_id = await self._insist(lambda client: send(client, self.session_id, text, message_id))
        self.promised[message_id] = run_id
        if text == "linger" and self._chance.random() < 0.5:
            await self._insist(lambda client: self._cancel(client, run_id))
        await self._receive(lambda: run_id in self._done)
        self.counts[self._done[run_id]] += 1

    async def _cancel(self, client: WireClient, run_id: str) -> None:
        try:
            await client.ask("cancel_run", {"sessionId": self.session_id, "runId": run_id}, self.session_id)
        except ErrorResponse as error:
            if error.code != "NO_ACTIVE_RUN":
                raise

    async def _receive(self, condition: Callable[[], bool]) -> None:
        await self._insist(lambda client: self._receive_until(client, condition), PATIENCE)

    async def _receive_until(self, client: WireClient, condition: Callable[[], bool]) -> None:
        while True:
            self._look_at(client)
            if condition():
                return
            for asked in list(self._asked.values()):
                await self._decide(client, asked)
            if self._looked == len(client.events):
                async with asyncio.timeout(self._silence):
                    await client.receive()

    def _look_at(self, client: WireClient) -> None:
        for event in client.events[self._looked :]:
            self._looked += 1
            self._seen = max(self._seen, event.get("seq", 0))
            body = event["payload"]
            if event["type"] == "approval_required":
                self._asked[body["approvalId"]] = event
            elif event["type"] in ENDINGS:
                self._asked.pop(body["approvalId"], None)
            elif event["type"] == "run_complete":
                self._done[event["runId"]] = body["outcome"]
                self._asked.clear()

    async def _decide(self, client: WireClient, asked: Message) -> None:
        """Approve, sometimes through two gateways at once; one that was decided before needs nothing more."""
        clients, approval_id = [client], asked["payload"]["approvalId"]
        async with contextlib.AsyncExitStack() as stack:
            if self._chance.random() < 0.3:
                with contextlib.suppress(OSError, TimeoutError):
                    clients.append(await self._visit(stack))
            answers = await asyncio.gather(*(self._approve(one, asked) for one in clients), return_exceptions=True)
        if isinstance(answers[0], BaseException):
            raise answers[0]
        if any(isinstance(answer, dict) for answer in answers):
            self._asked.pop(approval_id, None)
            self.counts["refused while it was pending"] += approval_id in self._refused
        elif answers[0] is None:
            self._refused.add(approval_id)
            await asyncio.sleep(0.2)  # the event that says so is on its way

    async def _approve(self, client: WireClient, asked: Message) -> Message | None:
        try:
            async with asyncio.timeout(self._silence):
                return await decide(client, asked)
        except ErrorResponse as error:
            if error.retryable:
                raise
            return None

    async def _visit(self, stack: contextlib.AsyncExitStack) -> WireClient:
        """A second connection, through any gateway."""
        client = await self._connect()
        stack.push_async_callback(_close, client)
        async with asyncio.timeout(self._silence):
            await attach(client, self.session_id, self._seen)
        return client

    async def _insist(self, action: Callable[[WireClient], Awaitable[Answer]], seconds: float | None = None) -> Answer:
        """Do it through one gateway or another, each of which has this many seconds."""
        async with self._deadline():
            while True:
                try:
                    client = await self._connected()
                    async with asyncio.timeout(seconds or self._silence):
                        answer = await action(client)
                except (OSError, TimeoutError) as error:
                    if isinstance(error, TimeoutError):
                        self._silence = min(2 * self._silence, LONGEST_SILENCE)
                    self._history.append(f"{time.time():.1f} {error!r}")
                    self.counts["changed gateway"] += 1
                    await self.leave()
                except ErrorResponse as error:
                    if not error.retryable:
                        raise
                    self._history.append(f"{time.time():.1f} {error}")
                    self.counts["tried again"] += 1
                else:
                    self._silence = SILENT_SECONDS
                    return answer
                await asyncio.sleep(0.1)

    @contextlib.asynccontextmanager
    async def _deadline(self) -> AsyncGenerator[None]:
        """Name what a person waits for in vain."""
        try:
            async with asyncio.timeout(PATIENCE):
                yield
        except TimeoutError:
            columns = "s.epoch, s.owner, n.name, s.state, s.last_seq, s.wakes, s.due"
            this = f"s.id = '{self.session_id}'"
            row = self.fleet.sql(f"SELECT {columns} FROM sessions s LEFT JOIN nodes n USING (owner) WHERE {this}")  # noqa: S608 - ours
            tail = f"FROM events e JOIN sessions s ON s.key = e.session WHERE {this} ORDER BY seq DESC LIMIT 8"
            last = self.fleet.sql(f"SELECT type, run_id, payload {tail}")
            stuck = f"{self.session_id} is stuck at seq {self._seen}, asked {list(self._asked)}"
            raise AssertionError("\n".join([f"{stuck}: {row}", last, *self._history])) from None

    async def _connected(self) -> WireClient:
        if self.client is None:
            self.client, self._looked = await self._connect(), 0
            if self.session_id:
                self.fleet.received.append((self.client, self.session_id, self._seen))
                try:
                    async with asyncio.timeout(self._silence):
                        await attach(self.client, self.session_id, self._seen)
                except ErrorResponse:
                    await self.leave()
                    raise
        return self.client

    async def _connect(self) -> WireClient:
        name = self._chance.choice(sorted(self.fleet.nodes))
        self._history.append(f"{time.time():.1f} to {name} from {self._seen}")
        async with asyncio.timeout(self._silence):
            client = await connect(self.fleet.nodes[name])
            await client.hello("console")
        return client


async def _close(client: WireClient) -> None:
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(SILENT_SECONDS):
            await client.close()
