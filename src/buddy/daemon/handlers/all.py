"""All handlers, by request."""

from collections.abc import Callable

from buddy.daemon.dispatch import Handlers
from buddy.daemon.handlers.blobs import BlobRequests
from buddy.daemon.handlers.daemon import DaemonRequests
from buddy.daemon.handlers.files import FileRequests
from buddy.daemon.handlers.history import HistoryRequests
from buddy.daemon.handlers.host import Host
from buddy.daemon.handlers.nodes import NodeRequests
from buddy.daemon.handlers.reading import ReadRequests
from buddy.daemon.handlers.runs import RunRequests
from buddy.daemon.handlers.sessions import SessionRequests
from buddy.daemon.handlers.tokens import TokenRequests
from buddy.daemon.handlers.web import WebRequests
from buddy.daemon.uploads import Uploads
from buddy.log.contract import Log
from buddy.protocol.ids import Ulids
from buddy.sessions.long_diffs import LongDiffs
from buddy.sessions.sessions import Sessions


def make_handlers(sessions: Sessions, log: Log, clock: Callable[[], int], host: Host) -> Handlers:
    diffs, uploads = LongDiffs(), Uploads(log, Ulids())
    return {
        **DaemonRequests(sessions, clock, host).handlers(),
        **SessionRequests(sessions, host).handlers(),
        **RunRequests(sessions, host, uploads).handlers(),
        **BlobRequests(uploads).handlers(),
        **ReadRequests(sessions, log, clock, diffs).handlers(),
        **TokenRequests(sessions, log, host).handlers(),
        **WebRequests(host).handlers(),
        **HistoryRequests(log, host, sessions.services.scrubber).handlers(),
        **FileRequests(sessions, log, diffs).handlers(),
        **NodeRequests(clock, host).handlers(),
    }
