"""The session's events on their way to the screen."""

import asyncio
from collections.abc import Callable

from buddy.client.bodies import approval_in
from buddy.errors import BuddyError
from buddy.protocol.envelopes import Event
from buddy.protocol.events import ApprovalRequired, EventBody
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.dialogs import Dialogs
from buddy.terminal.event_renderer import EventRenderer
from buddy.terminal.screen import Screen

TRIES = 3


class FullEvents:
    """Reads texts that are too long for their event; the terminal carries on if that fails."""

    def __init__(self, session: CurrentSession) -> None:
        self._session = session
        self._approvals: dict[str, Event] = {}

    def note(self, event: Event) -> None:
        """Remember an approval request, in case its text must be read."""
        if event.type in ("approval_required", "session_snapshot") and (asked := approval_in(event.body())) is not None:
            self._approvals[asked.approval_id] = event

    async def read(self, event: Event) -> EventBody | None:
        for _ in range(TRIES):
            try:
                return await self._session.access.read_full(event)
            except ConnectionError:
                continue  # the next request waits for the connection
            except BuddyError:
                break
        return event.body()

    async def read_approval(self, approval_id: str) -> ApprovalRequired | None:
        event = self._approvals.pop(approval_id, None)
        return approval_in(await self.read(event)) if event is not None else None


class EventFeed:
    def __init__(
        self,
        session: CurrentSession,
        full_events: FullEvents,
        renderer: EventRenderer,
        dialogs: Dialogs,
        screen: Screen,
        notify: Callable[[Event], None],
    ) -> None:
        self._notify = notify
        self._session = session
        self._full_events = full_events
        self._renderer = renderer
        self._dialogs = dialogs
        self._screen = screen

    async def run(self) -> None:
        """Show events until the connection is closed for good."""
        async for event in self._session.client.events():
            if self._session.apply(event):
                self._full_events.note(event)
                self._dialogs.withdraw(self._session.view)
                await self._renderer.render(event, self._full_events.read)
                if not self._session.is_replaying:
                    self._notify(event)
                    await self._dialogs.update(self._session.view)
                self._screen.redraw()
            if self._session.is_replaying:
                await asyncio.sleep(0)  # a long log must not block the keys
