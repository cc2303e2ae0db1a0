"""What Temporal remembers of a session with work: one workflow, whose activity `drive` lasts as long as the work.

Invariants: the workflow decides nothing but who is asked next; `drive` asks the log, which says who has the session. A
node that has it already is asked on its own task queue, anybody else on the shared one. `number` rises with every
attempt, and a take names it: an attempt that was given up long ago takes nothing.

Plain dataclasses: Temporal's converter knows them. A change of what happens here needs `workflow.patched`.
"""

from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy, VersioningBehavior
from temporalio.exceptions import ActivityError

DRIVE = "drive"
LONGEST = timedelta(hours=24)
MOST_TURNS = 200
"""After this number of turns, the workflow starts again with an empty history."""
_PATIENT = RetryPolicy(initial_interval=timedelta(milliseconds=100), maximum_interval=timedelta(seconds=2))
_ONCE = RetryPolicy(maximum_attempts=1)


@dataclass(frozen=True)
class Order:
    """Have a session driven by `node`, which is thought to have it, or by any; `number` is the last attempt's."""

    session_id: str
    queue: str
    lease_seconds: float
    number: int
    node: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class Attempt:
    """What an activity gets; its own number of tries is added to `number`."""

    session_id: str
    number: int


@dataclass(frozen=True)
class Outcome:
    """The work ended if `node` is None; otherwise that node has the session now."""

    number: int
    node: str | None = None


def node_queue(queue: str, node: str) -> str:
    """The task queue that only one node reads."""
    return f"{queue}@{node}"


@workflow.defn(name="buddy-session", versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class SessionWorkflow:
    @workflow.run
    async def run(self, order: Order) -> None:
        number, node = order.number, order.node
        for _ in range(MOST_TURNS):
            try:
                outcome = await self._drive(order, number, node)
            except ActivityError:
                if node is None:
                    raise
                number, node = number + 1, None  # that node does not answer, so anybody may
                continue
            number, node = outcome.number, outcome.node
            if node is None:
                return
        workflow.continue_as_new(Order(order.session_id, order.queue, order.lease_seconds, number, node, order.user))

    async def _drive(self, order: Order, number: int, node: str | None) -> Outcome:
        lease = timedelta(seconds=order.lease_seconds)
        return await workflow.execute_activity(
            DRIVE,
            Attempt(order.session_id, number),
            result_type=Outcome,
            task_queue=order.queue if node is None else node_queue(order.queue, node),
            schedule_to_start_timeout=None if node is None else lease,
            start_to_close_timeout=LONGEST,
            heartbeat_timeout=lease,
            retry_policy=_PATIENT if node is None else _ONCE,
            priority=Priority(fairness_key=order.user),
        )
