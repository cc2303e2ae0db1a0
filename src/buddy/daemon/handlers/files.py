"""Requests about the files that a session changed."""

import asyncio
from functools import partial

from buddy.checkpoints.checkpoints import Checkpoints
from buddy.checkpoints.contract import Scope
from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_record, on_session
from buddy.errors import SessionElsewhere
from buddy.log.contract import Log, SessionRecord
from buddy.protocol import file_requests as ask
from buddy.protocol.shapes import Shape
from buddy.sessions import files, written_files
from buddy.sessions.long_diffs import LongDiffs
from buddy.sessions.past import read_entries
from buddy.sessions.session import Session
from buddy.sessions.sessions import Sessions


class FileRequests:
    def __init__(self, sessions: Sessions, log: Log, diffs: LongDiffs) -> None:
        self._sessions = sessions
        self._log = log
        self._diffs = diffs

    def handlers(self) -> Handlers:
        return {
            "list_changes": on_record(ask.ListChanges, self.list_changes),
            "restore_files": on_session(ask.RestoreFiles, self.restore_files),
        }

    async def list_changes(self, _peer: PeerConnection, request: ask.ListChanges, record: SessionRecord) -> Shape:
        services = self._sessions.services
        if services.leases is not None and await services.leases.has_other_machine(record.session_id):
            raise SessionElsewhere("SANDBOX_UNAVAILABLE", "the files are on another node", retryable=True)
        checkpoints: Checkpoints | None = services.checkpoints
        keep = partial(self._diffs.put, record.session_id)
        listing = files.Listing(self._log, services.scrubber, checkpoints, keep)
        root = record.repo.root_path
        scope = Scope(root, is_closed=services.permissions(root).closed_now())
        found = await files.list_changes(listing, record.session_id, scope, request)
        if found is not None:
            return found
        # Without checkpoints, what its own tools wrote is all that is known.
        last = request.at_seq or record.last_seq
        entries = await read_entries(self._log, record.session_id, types=written_files.TYPES, through=last)
        written = tuple(await asyncio.to_thread(written_files.list_changes, entries, request))
        return ask.ListChangesReply(written, written_files.UNCOVERED if written else files.BEYOND)

    async def restore_files(self, peer: PeerConnection, request: ask.RestoreFiles, session: Session) -> Shape:
        return await files.restore_files(session, request, peer.name)
