"""Two things at the same moment: one of them wins, the log says which, and every client sees the same.

The races run in simulated time, so that every moment is tried and none depends on how fast the machine is.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from buddy.client.client import Client
from buddy.errors import ProtocolError
from buddy.models.script import Script, ScriptedCall, ScriptedReply, Section
from buddy.protocol.codes import Verdict
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalExpired, ApprovalReceived, ApprovalRequired, RunComplete
from buddy.protocol.ids import CountingIds
from buddy.protocol.requests import SendUserMessage, StartSession, SubmitApproval
from buddy.protocol.shapes import Repo, SessionOptions
from tests.faults.simulated import ROOT, SimulatedMachine, SimulatedRuntime, SlowLog, VirtualLoop
from tests.harness.checker import Received, Recorded, check
from tests.harness.logs import read_all

SESSIONS, ROUNDS = 8, 50
CROWD, CROWD_ROUNDS = 20, 120
TIMEOUT = 1.0
# Longer than any run of these scripts takes.
LONGEST = 0.16

TOOL = ScriptedCall("run_shell", {"command": "0.01 0.01 0 BUDDY_CALL"})
SCRIPT = Script(
    on=(
        Section("^talk$", (ScriptedReply(text="a word or two and att", delay=0.005),)),
        Section("^act$", (ScriptedReply(text="I act.", calls=(TOOL, TOOL)), ScriptedReply(text="It is done."))),
    )
)


def virtually(work: "Coroutine[object, object, None]") -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(work)


class Table:
    """A simulated runtime with one session, and what its first client received."""

    def __init__(self, runtime: SimulatedRuntime, world: SimulatedMachine, client: Client, session_id: str) -> None:
        self.runtime = runtime
        self.world = world
        self.client = client
        self.session_id = session_id
        self.received: list[Event] = []
        self._events = client.events()

    async def until_complete(self, run_id: str) -> RunComplete:
        async for event in self._events:
            self.received.append(event)
            body = event.body()
            if isinstance(body, RunComplete) and body.run_id == run_id:
                return body
        raise AssertionError("the connection ended before the run")

    async def until_asked(self) -> ApprovalRequired:
        async for event in self._events:
            self.received.append(event)
            body = event.body()
            if isinstance(body, ApprovalRequired):
                return body
        raise AssertionError("the connection ended before the question")

    async def check(self) -> list[Event]:
        """Check what was recorded; returns the log."""
        session = self.runtime.sessions.live(self.session_id)
        assert session is not None
        log = {self.session_id: await read_all(self.runtime.log, self.session_id)}
        received = (Received(self.session_id, 0, self.received, to_end=True),)
        assert check(Recorded(log, received, self.world.ledger, {self.session_id: session.fold})) == []
        assert self.world.living() == []
        return log[self.session_id]


@asynccontextmanager
async def laid_table(seed: int, policy: str) -> AsyncGenerator[Table, None]:
    world = SimulatedMachine()
    log = SlowLog(random.Random(seed))  # noqa: S311 - a seed to repeat, not a secret
    runtime = SimulatedRuntime(world, log, CountingIds(), SCRIPT, TIMEOUT)
    async with Client(runtime.connect(), "first") as client:
        options = SessionOptions(approval_policy=policy)
        request = StartSession("interactive", "default", "local", Repo(ROOT), options=options)
        yield Table(runtime, world, client, (await client.start_session(request)).session_id)
    await runtime.close()


# --- cancel against completion -------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["talk", "act"])
def test_a_cancel_that_was_accepted_is_the_outcome_and_one_that_came_late_is_not(text: str) -> None:
    outcomes: Counter[tuple[bool, str]] = Counter()
    for seed in range(SESSIONS // 2):
        virtually(_race_cancels(text, seed, outcomes))
    assert sum(outcomes.values()) == SESSIONS // 2 * ROUNDS
    assert set(outcomes) == {(True, "cancelled"), (False, "success")}


async def _race_cancels(text: str, seed: int, outcomes: "Counter[tuple[bool, str]]") -> None:
    chance = random.Random(seed)  # noqa: S311 - a seed to repeat, not a secret
    async with laid_table(seed, "all") as table:
        for number in range(ROUNDS):
            run_id = await table.client.send(SendUserMessage(table.session_id, f"msg_{number}", text))
            cancelling = asyncio.create_task(_cancel(table, run_id, chance.uniform(0, LONGEST)))
            complete = await table.until_complete(run_id)
            outcomes[await cancelling, complete.outcome] += 1
        await table.check()


async def _cancel(table: Table, run_id: str, moment: float) -> bool:
    await asyncio.sleep(moment)
    try:
        await table.client.cancel(table.session_id, run_id)
    except ProtocolError as error:
        assert error.code == "NO_ACTIVE_RUN"
        return False
    return True


# --- many deciders and a deadline ----------------------------------------------------------------------------------


def test_exactly_one_of_twenty_deciders_and_a_deadline_decides() -> None:
    virtually(_race_decisions())


async def _race_decisions() -> None:
    chance = random.Random(20)  # noqa: S311 - a seed to repeat, not a secret
    decided: Counter[str] = Counter()
    async with laid_table(3, "ask") as table, AsyncExitStack() as leaving:
        crowd = [
            await leaving.enter_async_context(Client(table.runtime.connect(), f"client-{number}", ids=CountingIds()))
            for number in range(CROWD)
        ]
        for number in range(CROWD_ROUNDS):
            run_id = await table.client.send(SendUserMessage(table.session_id, f"msg_{number}", "act"))
            for _ in range(2):
                asked = await table.until_asked()
                moment = chance.choice((0.0, TIMEOUT - 0.02, TIMEOUT))
                accepted = await _decide_at_once(crowd, table.session_id, run_id, asked, moment, chance)
                assert accepted <= 1
                decided["accepted" if accepted else "expired"] += 1
                if not accepted:
                    break  # a question that expires ends its run
            await table.until_complete(run_id)
        events = await table.check()
    bodies = [event.body() for event in events]
    assert decided["accepted"] == sum(isinstance(body, ApprovalReceived) for body in bodies) > CROWD_ROUNDS // 3
    assert decided["expired"] == sum(isinstance(body, ApprovalExpired) for body in bodies) > CROWD_ROUNDS // 3


async def _decide_at_once(
    crowd: list[Client], session_id: str, run_id: str, asked: ApprovalRequired, moment: float, chance: random.Random
) -> int:
    """All of them answer around the moment; how many were accepted."""
    verdicts: list[Verdict] = [chance.choice(("approve", "deny")) for _ in crowd]
    told = await asyncio.gather(
        *(
            _decide(
                client, SubmitApproval(session_id, run_id, asked.approval_id, verdict), moment + chance.uniform(0, 0.03)
            )
            for client, verdict in zip(crowd, verdicts, strict=True)
        )
    )
    return sum(told)


async def _decide(client: Client, answer: SubmitApproval, moment: float) -> bool:
    await asyncio.sleep(moment)
    try:
        await client.approve(answer)
    except ProtocolError as error:
        assert error.code == "APPROVAL_EXPIRED"
        return False
    return True
