"""From a prepared call to its start: consult hooks, ask, prepare it again, compare the digests, claim.

Invariants: a call starts only with a decision on exactly what would run now; it is claimed before it starts; if the
disk is nearly full, only read-only calls start.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from buddy.approvals.questions import Question, Ruling
from buddy.errors import RunEnded
from buddy.protocol.codes import Tier

DISK_FULL = "less than 200 MiB of disk space is free, so the call could not be recorded and was not started"


class Asker(Protocol):
    """The part of a run that gets decisions and claims calls."""

    async def consult_hooks(self, question: Question) -> bool:
        """Have the hooks answer about a call, once; return whether they changed its input."""
        ...

    async def ask(self, question: Question) -> Ruling: ...

    async def claim(self, call_id: str, tier: Tier, digest: str) -> None: ...


class HasQuestion(Protocol):
    """A call as it would run now."""

    @property
    def question(self) -> Question: ...


CallT = TypeVar("CallT", bound=HasQuestion)


def check_disk_space(tier: Tier, has_room: Callable[[], bool]) -> None:
    """End the run instead of starting a call that changes something and may not be recorded."""
    if tier != "read-only" and not has_room():
        raise RunEnded("storage_full", DISK_FULL)


async def ask_until_current(
    run: Asker, prepared: CallT, prepare: Callable[[], Awaitable[CallT]]
) -> tuple[Ruling, CallT]:
    """Ask about a call, and again if what would run changed while somebody was deciding.

    Hooks are consulted first: what one changes is prepared again, so that it is what the others and a person judge.
    """
    if await run.consult_hooks(prepared.question):
        prepared = await prepare()
        await run.consult_hooks(prepared.question)
    while True:
        ruling = await run.ask(prepared.question)
        is_harmless = prepared.question.tier == "read-only" and not prepared.question.intent.caution
        if not ruling.approved or not ruling.waited or is_harmless:
            return ruling, prepared
        again = await prepare()
        if again.question.digest == prepared.question.digest:
            return ruling, prepared
        prepared = again


async def claim(run: Asker, question: Question) -> None:
    """Record that the call is about to start. Calls that only read are never claimed: repeating them is harmless."""
    if question.tier != "read-only":
        await run.claim(question.call_id, question.tier, question.digest)
