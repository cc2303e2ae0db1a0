"""The sub-agents that work for sessions which another node has, by the log of those sessions.

Invariant: each event is read once; what is known of a session is dropped when nobody asks for it any more.
"""

from collections.abc import Collection

from buddy.log.contract import Log
from buddy.protocol.events import ChildFinished, ChildStarted, RunComplete, wire_name

_TYPES = (wire_name(ChildStarted), wire_name(ChildFinished), wire_name(RunComplete))


class RemoteChildren:
    def __init__(self, log: Log) -> None:
        self._log = log
        self.cursors: dict[str, int] = {}
        """How far the log of each session was read."""
        self._working: dict[str, list[str]] = {}

    async def working(self, session_id: str) -> list[str]:
        """The sub-agents of a session that have not finished, and theirs."""
        record = await self._log.get(session_id)
        if record is None:
            self.cursors.pop(session_id, None)
            return []
        await self._read(session_id, record.last_seq)
        found = list(self._working[session_id])
        return [one for child in found for one in (child, *await self.working(child))]

    def keep(self, session_ids: Collection[str]) -> None:
        """Forget all others."""
        for known in self.cursors.keys() - set(session_ids):
            del self.cursors[known], self._working[known]

    async def _read(self, session_id: str, last_seq: int) -> None:
        working = self._working.setdefault(session_id, [])
        cursor = self.cursors.get(session_id, 0)
        while cursor < last_seq:
            events = await self._log.read(session_id, cursor, types=_TYPES)
            for event in events:
                match event.body():
                    case ChildStarted(session_id=child):
                        working.append(child)
                    case ChildFinished(session_id=child) if child in working:
                        working.remove(child)
                    case RunComplete():
                        working.clear()
                    case _:
                        pass
            cursor = events[-1].seq if events else last_seq
        self.cursors[session_id] = max(cursor, last_seq)
