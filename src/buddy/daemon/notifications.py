"""Notifications of the daemon: loaded when an event is worth one and `[notify]` says where to.

Invariant: edits of the file count from the next event on; what waits is still delivered where it was meant to go.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from buddy.config.notify import NotifySettings
from buddy.daemon.configuration import Configuration
from buddy.daemon.connection import PeerConnection
from buddy.log.contract import Log
from buddy.protocol.envelopes import Event

if TYPE_CHECKING:
    from buddy.notify.notices import SessionPlace
    from buddy.notify.notifier import Notifier
    from buddy.notify.senders import Sender

LEDGER = "notified"
RESEND_SECONDS = 5.0
_TYPES = ("approval_required", "question_asked", "run_complete")


class Host(Protocol):
    """The part of the runtime that matters here."""

    @property
    def configuration(self) -> Configuration: ...

    @property
    def log(self) -> Log: ...

    @property
    def web_address(self) -> str | None: ...

    @property
    def connections(self) -> Mapping[asyncio.Task[None], PeerConnection]: ...


def make_notifications(host: Host, state_dir: Path) -> "Notifications":
    def is_watched(session_id: str) -> bool:
        return any(peer.is_looking and peer.is_attached(session_id) for peer in host.connections.values())

    settings, address = lambda: host.configuration.current.notify, lambda: host.web_address
    return Notifications(settings, host.log, is_watched, address, state_dir / LEDGER)


class Notifications:
    def __init__(
        self,
        settings: Callable[[], NotifySettings],
        log: Log,
        is_watched: Callable[[str], bool],
        console: Callable[[], str | None],
        ledger: Path,
    ) -> None:
        """`is_watched` says whether somebody looks at a session, `console` is its address, if it is served; `ledger` is
        the file of what was delivered."""
        self._ledger = ledger
        self._settings = settings
        self._log = log
        self._is_watched = is_watched
        self._console = console
        self._made: list[tuple[NotifySettings, Notifier]] = []

    def observe(self, events: Sequence[Event]) -> None:
        """A listener of all sessions."""
        for event in events:
            if event.type in _TYPES and (settings := self._settings()).is_used:
                self._notifier(settings).observe((event,))

    async def resend(self, patience: float = RESEND_SECONDS) -> None:
        """Send what an earlier process of this log did not deliver, once those who look had time to come back."""
        settings = self._settings()
        if not self._ledger.exists():
            return
        from buddy.notify.ledger import Ledger
        from buddy.notify.undelivered import find_notices

        ledger = Ledger(self._ledger)
        if not settings.is_used:
            ledger.forget()
        elif (found := ledger.read()) is not None:
            since, settled = found
            notices = await find_notices(self._log, since)
            await asyncio.sleep(patience)
            for notice in notices:
                self._notifier(settings).resend(notice, settled)

    async def close(self) -> None:
        """Deliver what can be delivered now."""
        for _, notifier in self._made:
            await notifier.close()

    def _notifier(self, settings: NotifySettings) -> "Notifier":
        from buddy.notify.ledger import Ledger
        from buddy.notify.notifier import Notifier

        for known, notifier in self._made:
            if known == settings:
                return notifier
        made = Notifier(_senders(settings), self._find, self._is_watched, ledger=Ledger(self._ledger))
        self._made.append((settings, made))
        return made

    async def _find(self, session_id: str) -> "SessionPlace | None":
        from buddy.notify.notices import SessionPlace

        record = await self._log.get(session_id)
        if record is None:
            return None
        address = (self._console() or "").replace("ws", "http", 1)
        link = f"{address}/session/{session_id}" if address else f"buddy resume {session_id}"
        is_child = record.facts.agent is not None
        return SessionPlace(record.title or "", record.repo.root_path, link, is_child)


def _senders(settings: NotifySettings) -> "list[Sender]":
    from buddy.notify.senders import Desktop, Ntfy, Webhook

    senders: list[Sender] = []
    if settings.webhook_url:
        senders.append(Webhook(settings.webhook_url, settings.signing_key()))
    if settings.ntfy_url:
        senders.append(Ntfy(settings.ntfy_url))
    if settings.desktop:
        senders.append(Desktop())
    return senders
