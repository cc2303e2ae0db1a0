"""A simulated session: clients that ask for random things, a runtime that crashes, and a disk that fills up."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable

from buddy.client.client import Client
from buddy.errors import ProtocolError
from buddy.models.script import Script, ScriptedCall, ScriptedError, ScriptedReply, Section
from buddy.protocol.codes import Policy, Verdict
from buddy.protocol.envelopes import Event
from buddy.protocol.events import RunComplete, UserMessage
from buddy.protocol.ids import CountingIds
from buddy.protocol.queue_requests import QueueMessage, QueueMessageReply, SteerRun
from buddy.protocol.requests import (
    AcceptedReply,
    CompactSession,
    CompactSessionReply,
    GetSnapshot,
    GetSnapshotReply,
    SendUserMessage,
    SetApprovalPolicy,
    SetApprovalPolicyReply,
    StartSession,
    SubmitApproval,
)
from buddy.protocol.shapes import Repo
from buddy.sessions.state import SessionFold
from tests.faults.simulated import ROOT, SimulatedMachine, SimulatedRuntime, SlowLog
from tests.harness.checker import Received, Recorded
from tests.harness.logs import read_all

TOPICS = 4
STEPS = 20
TIMEOUT, EXPIRED = 5.0, 6.0
FOREVER = 1e9
PATIENCE, TOO_LONG = 2000, 40

Step = Callable[[], Awaitable[object]]


class Person:
    """A client that comes back after every crash, from where it had read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.received: list[Event] = []
        self.client: Client | None = None
        self._reading: asyncio.Task[None] | None = None

    async def join(self, runtime: SimulatedRuntime, session_id: str) -> None:
        self.client = await Client(runtime.connect(), self.name, ids=CountingIds()).__aenter__()
        await self.client.attach(session_id, self.received[-1].seq if self.received else 0)
        self._reading = asyncio.get_running_loop().create_task(self._read(self.client))

    async def leave(self) -> None:
        if self.client is not None:
            await self.client.__aexit__(None, None, None)
            self.client = None
        if self._reading is not None:
            await self._reading

    async def _read(self, client: Client) -> None:
        async for event in client.events():
            self.received.append(event)


class RandomRequests:
    """What the clients ask for; which runs and decisions were accepted."""

    def __init__(self, chance: random.Random) -> None:
        self.people = [Person(name) for name in ("ann", "bob", "eve")]
        self.session_id = ""
        self.runs: dict[str, set[str]] = {}
        self.accepted: list[str] = []
        self._chance = chance
        self._background: set[asyncio.Task[None]] = set()
        self._messages = 0

    async def wait_idle(self) -> None:
        while self._background:
            await asyncio.wait(tuple(self._background))

    def choose(self) -> Step:
        """One of the requests, at random."""
        return self._chance.choices(
            (self.send, self.send_twice, self.decide, self.cancel, self.set_policy, self.say, self.compact),
            (6, 2, 8, 3, 2, 2, 1),
        )[0]

    def spawn(self, step: Step) -> None:
        task = asyncio.get_running_loop().create_task(self.attempt(step))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def attempt(self, step: Step) -> None:
        """A request may be refused, and a crash may cut it off; nothing else may go wrong."""
        with contextlib.suppress(ProtocolError, ConnectionError):
            await step()

    def client(self) -> Client:
        client = self._chance.choice(self.people).client
        if client is None:
            raise ConnectionResetError("nobody is there")
        return client

    async def send(self) -> None:
        again = self._messages > 0 and self._chance.random() < 0.3
        number = self._chance.randint(1, self._messages) if again else self.new_message()
        await self.send_message(number)

    async def send_twice(self) -> None:
        number = self.new_message()
        for _ in range(3):
            self.spawn(lambda: self.send_message(number))

    async def send_message(self, number: int) -> None:
        request = SendUserMessage(self.session_id, f"msg_{number}", f"topic {number % TOPICS}")
        run_id = await self.client().send(request)
        self.runs.setdefault(request.client_message_id, set()).add(run_id)

    def new_message(self) -> int:
        self._messages += 1
        return self._messages

    async def say(self) -> None:
        """Something while a run is active: for now, or for later."""
        number = self.new_message()
        client, active = self.client(), (await self.snapshot()).active_run_id
        text = f"topic {number % TOPICS}"
        if active and self._chance.random() < 0.5:
            await client.request(SteerRun(active, text), AcceptedReply, self.session_id)
        else:
            await client.request(QueueMessage(f"msg_{number}", text), QueueMessageReply, self.session_id)

    async def decide(self) -> None:
        snapshot = await self.snapshot()
        for approval in snapshot.approvals:
            for _ in range(self._chance.choice((1, 1, 3))):
                verdict: Verdict = self._chance.choice(("approve", "approve", "deny"))
                stop = self._chance.random() < 0.1
                answer = SubmitApproval(
                    self.session_id, snapshot.active_run_id or "", approval.approval_id, verdict, stop=stop
                )
                self.spawn(lambda answer=answer: self.submit(answer))

    async def submit(self, answer: SubmitApproval) -> None:
        await self.client().approve(answer)
        self.accepted.append(answer.approval_id)

    async def cancel(self) -> None:
        run_id = (await self.snapshot()).active_run_id
        for _ in range(self._chance.choice((1, 2)) if run_id else 0):
            self.spawn(lambda: self.client().cancel(self.session_id, run_id or ""))

    async def set_policy(self) -> None:
        policy: Policy = self._chance.choice(("ask", "auto", "all", "none", "until"))
        request = SetApprovalPolicy(policy, 1.0 if policy == "until" else None)
        await self.client().request(request, SetApprovalPolicyReply, self.session_id)

    async def compact(self) -> None:
        request = CompactSession(undo=self._chance.random() < 0.3)
        await self.client().request(request, CompactSessionReply, self.session_id)

    async def snapshot(self) -> GetSnapshotReply:
        return await self.client().request(GetSnapshot(), GetSnapshotReply, self.session_id)


class Simulation:
    """One session with several clients, crashes and a full disk, all at once; a random number decides."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - a seed to repeat, not a secret
        self._machine = SimulatedMachine()
        self._ids = CountingIds()
        self._script = make_script(self._chance)
        self._log = SlowLog(random.Random(seed + 1))  # noqa: S311 - as above
        self._requests = RandomRequests(self._chance)

    async def run(self) -> tuple[Recorded, list[str]]:
        """Random steps, then the way to the end; what was recorded, and what was seen to be wrong meanwhile."""
        self._runtime = self._make_runtime()
        await self._start()
        for _ in range(STEPS):
            await self._step()
        fold, problems = await self._finish()
        session_id = self._requests.session_id
        events = await read_all(self._log, session_id)
        received = [Received(session_id, 0, person.received, to_end=True) for person in self._requests.people]
        recorded = Recorded({session_id: events}, received, self._machine.ledger, {session_id: fold})
        return recorded, [*problems, *self._problems(events)]

    async def _step(self) -> None:
        step = self._requests.choose()
        match self._chance.randrange(12):
            case 0 | 6:
                await self._crash()
            case 1:
                self._log.full = not self._log.full
            case 2 | 3 | 4 | 5:
                await self._requests.attempt(step)
            case _:
                self._requests.spawn(step)
        await asyncio.sleep(self._chance.choice((0, 0, 0.001, 0.01, 0.05, 0.3, 2, EXPIRED)))

    def _make_runtime(self) -> SimulatedRuntime:
        return SimulatedRuntime(self._machine, self._log, self._ids, self._script, TIMEOUT)

    async def _start(self) -> None:
        async with Client(self._runtime.connect(), "first", ids=CountingIds()) as client:
            request = StartSession("interactive", "default", "local", Repo(ROOT))
            self._requests.session_id = (await client.start_session(request)).session_id
        await self._join()

    async def _join(self) -> None:
        for person in self._requests.people:
            await person.join(self._runtime, self._requests.session_id)

    async def _crash(self) -> None:
        dying, self._runtime = self._runtime, self._make_runtime()
        await dying.crash()
        for person in self._requests.people:
            await person.leave()
        await self._requests.attempt(self._join)

    async def _finish(self) -> tuple[SessionFold, list[str]]:
        """The faults are over: everything comes to its end, and the session takes one more message."""
        self._log.full = False
        await self._requests.wait_idle()
        await self._crash()
        await self._settle()
        last = SendUserMessage(self._requests.session_id, "msg_last", "are you there?")
        await self._requests.client().send(last)
        await self._settle()
        await asyncio.sleep(5)
        session = self._runtime.sessions.live(self._requests.session_id)
        fold = session.fold if session else SessionFold()
        problems = [f"{nonce} still runs" for nonce in self._machine.living()]
        for person in self._requests.people:
            await person.leave()
        await self._runtime.close()
        return fold, problems

    async def _settle(self) -> None:
        """Approve whatever is asked, and cancel what takes too long, until nothing is left to do."""
        for turn in range(PATIENCE):
            snapshot = await self._requests.snapshot()
            for approval in snapshot.approvals:
                answer = SubmitApproval(
                    self._requests.session_id, snapshot.active_run_id or "", approval.approval_id, "approve"
                )
                await self._requests.attempt(lambda answer=answer: self._requests.submit(answer))
            if snapshot.active_run_id and turn % TOO_LONG == TOO_LONG - 1:
                await self._requests.attempt(
                    lambda run_id=snapshot.active_run_id: self._requests.client().cancel(
                        self._requests.session_id, run_id
                    )
                )
            if snapshot.active_run_id is None and not await self._log.waiting(self._requests.session_id):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the session never came to rest")

    def _problems(self, events: list[Event]) -> list[str]:
        """What clients received must be true."""
        bodies = [(event, event.body()) for event in events]
        logged = {body.message_id: event.run_id for event, body in bodies if isinstance(body, UserMessage)}
        wrong = [
            f"{message} was accepted as {sorted(runs)}, the log has {logged.get(message)}"
            for message, runs in self._requests.runs.items()
            if runs != {logged.get(message)}
        ]
        wrong += [
            f"{body.run_id} ended by a bug: {body.summary}"
            for _, body in bodies
            if isinstance(body, RunComplete) and body.reason == "internal_error"
        ]
        return wrong + [
            f"{approval} was accepted {times} times"
            for approval, times in Counter(self._requests.accepted).items()
            if times > 1
        ]


def make_script(chance: random.Random) -> Script:
    """What the model says to each topic."""
    sections = [
        Section(f"topic {topic}$", tuple(_reply(chance) for _ in range(chance.randrange(4)))) for topic in range(TOPICS)
    ]
    return Script(on=tuple(sections))


def _reply(chance: random.Random) -> ScriptedReply:
    error = ScriptedError("the model is away", times=1) if chance.random() < 0.1 else None
    return ScriptedReply(
        # The last word begins like a registered secret, so a part of it is held back until more is known.
        text=chance.choice(("", "At last.", "Let me look at that, att")),
        thinking=chance.choice(("", "", "What was asked?")),
        calls=tuple(_call(chance) for _ in range(chance.choice((0, 1, 1, 2, 3)))),
        delay=chance.choice((0, 0.001, 0.1)),
        error=error,
        truncated=chance.random() < 0.05,
    )


def _call(chance: random.Random) -> ScriptedCall:
    path = f"file{chance.randrange(3)}"
    match chance.randrange(8):
        case 0 | 1 | 2 | 3:
            before, after = (chance.choice((0, 0.002, 0.2, wait)) for wait in (0.2, FOREVER))
            return ScriptedCall("run_shell", {"command": f"{before} {after} {chance.choice((0, 0, 1))} BUDDY_CALL"})
        case 4:
            return ScriptedCall("write_file", {"path": path, "content": str(chance.random())})
        case 5 | 6:
            return ScriptedCall("read_file", {"path": path})
        case _:
            return ScriptedCall("run_shell", arguments='{"command": ')
