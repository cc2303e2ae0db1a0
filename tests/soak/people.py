"""What people do with their sessions for days: they ask, approve, cancel, compact, fork, undo, prune and come back."""

import contextlib
from collections.abc import Sequence

from tests.fleet.people import PATIENCE, Person
from tests.harness.clients import attach
from tests.harness.wire_client import ErrorResponse, Message, WireClient
from tests.soak.machine import Machine

PAGE = 50
MAX_LISTED = 200
KEPT_EVENTS = 150
"""What a person keeps of a session when pruning it."""


class Resident(Person):
    """A person of one machine: between two messages, something else may happen to the session."""

    machine: Machine
    is_long = False
    """Whether the session has a past that is too long to read again and again."""
    texts: Sequence[str] = ("count", "make it", "twice", "drip", "linger", "write", "mcp")

    async def between(self) -> None:
        """Once in a while, one of the rarer things."""
        rare = [self._compact, self._fork, self._undo, self._reconnect, *([] if self.is_long else [self._prune])]
        if self._chance.random() < 0.4:
            await self._insist(self._chance.choice(rare), PATIENCE)

    def skip(self, last_seq: int) -> None:
        """Do not ask for events up to here, which are in the log without having been sent."""
        self._seen = last_seq
        self.is_long = True

    async def _compact(self, client: WireClient) -> None:
        await self._try(client, "compact_session", {})

    async def _undo(self, client: WireClient) -> None:
        await self._try(client, "restore_files", {"dryRun": False})

    async def _fork(self, client: WireClient) -> None:
        """Have a copy, and delete those before, also one whose reply was lost; nobody keeps a long one."""
        reply = await self._try(client, "fork_session", {"seq": self._seen})
        kept = None if reply is None or self.is_long else reply["sessionId"]
        listed = (await client.ask("list_sessions", {"limit": MAX_LISTED}))["sessions"]
        forks = {one["sessionId"] for one in listed if one.get("parent") == self.session_id}
        self.machine.forks |= forks
        for fork in forks - {kept}:
            with contextlib.suppress(ErrorResponse):
                await client.ask("delete_session", {}, fork)

    async def _prune(self, client: WireClient) -> None:
        """Keep the last events; what goes is remembered for the checker."""
        before = self._seen - KEPT_EVENTS
        known = self.machine.archived(self.session_id)
        while known < before:
            request = {"after": known, "limit": PAGE}
            page = (await client.ask("read_events", request, self.session_id))["events"]
            self.machine.archive(self.session_id, page)
            known = page[-1]["seq"]
        if before > 0:
            await self._try(client, "prune_session", {"beforeSeq": before})

    async def _reconnect(self, client: WireClient) -> None:
        """Leave, and come back with the cursor of what was seen."""
        await attach(client, self.session_id, self._seen)
        await self.leave()

    async def _try(self, client: WireClient, kind: str, payload: Message) -> Message | None:
        """Ask for it; a refusal that says why is an answer, too."""
        try:
            reply = await client.ask(kind, payload, self.session_id)
        except ErrorResponse as error:
            if error.code == "INTERNAL_ERROR" and not error.retryable:
                raise
            self.counts[f"{kind}: {error.code}"] += 1
            return None
        self.counts[kind] += 1
        return reply
