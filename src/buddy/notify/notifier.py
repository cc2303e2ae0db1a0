"""Listens to the log and sends notices, unless somebody is looking.

Invariants: a run never waits for it; what is not delivered is tried again with growing pauses, and dropped with a line
in the daemon's log; at most `MAX_WAITING` notices wait. What a restart cut off is sent again, but not to a desktop.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from buddy.notify.ledger import Ledger
from buddy.notify.notices import Notice, SessionPlace, notice_of
from buddy.notify.senders import Sender, SendFailed
from buddy.protocol.envelopes import Event

MAX_WAITING = 1000
PAUSES = (5.0, 30.0, 120.0, 600.0, 1800.0, 7200.0)
CLOSE_SECONDS = 5.0

log = logging.getLogger("buddy.notify")


class Notifier:
    def __init__(
        self,
        senders: Sequence[Sender],
        find: Callable[[str], Awaitable[SessionPlace | None]],
        is_watched: Callable[[str], bool],
        pauses: Sequence[float] = PAUSES,
        ledger: Ledger | None = None,
    ) -> None:
        """`find` describes a session, `is_watched` whether somebody looks at it; `ledger` outlives this process."""
        self._ledger = ledger
        self._senders = list(senders)
        self._find = find
        self._is_watched = is_watched
        self._pauses = pauses
        self._tasks: set[asyncio.Task[None]] = set()

    def observe(self, events: Sequence[Event]) -> None:
        """A listener of all sessions."""
        for event in events:
            if (notice := notice_of(event)) is not None:
                if self._ledger is not None:
                    self._ledger.begin(notice.ts)
                self._begin(notice, self._senders)

    def resend(self, notice: Notice, settled: Collection[tuple[str, str]]) -> None:
        """Send a notice of an earlier process where it has not arrived."""
        if ("*", notice.id) not in settled:
            lasting = [sender for sender in self._senders if sender.is_lasting]
            self._begin(notice, [sender for sender in lasting if (sender.name, notice.id) not in settled])

    def _begin(self, notice: Notice, senders: Sequence[Sender]) -> None:
        if self._is_watched(notice.session_id):
            self._settle("*", notice)
            return
        if len(self._tasks) >= MAX_WAITING:
            log.warning("notification dropped: %d are waiting", MAX_WAITING)
            return
        task = asyncio.get_running_loop().create_task(self._notify(notice, senders), name="notify")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Deliver what can be delivered now."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        for task in list(self._tasks):
            task.cancel()

    def _settle(self, sender: str, notice: Notice) -> None:
        if self._ledger is not None:
            self._ledger.settle(sender, notice.id)

    async def _notify(self, notice: Notice, senders: Sequence[Sender]) -> None:
        place = await self._find(notice.session_id)
        if place is None or (place.is_child and notice.kind == "finished"):
            return  # it was deleted, or its parent goes on
        await asyncio.gather(*(self._deliver(sender, notice, place) for sender in senders))

    async def _deliver(self, sender: Sender, notice: Notice, place: SessionPlace) -> None:
        for pause in (*self._pauses, None):
            try:
                await sender.send(notice, place)
            except SendFailed as error:
                if pause is None or error.is_final:
                    log.warning("%s: notification not delivered: %s", sender.name, error)
                    break
                log.info("%s: %s; trying again in %g s", sender.name, error, pause)
                await asyncio.sleep(pause)
            else:
                break
        if sender.is_lasting:
            self._settle(sender.name, notice)
