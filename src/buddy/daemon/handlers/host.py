"""What handlers need of the runtime that holds the connections."""

from typing import TYPE_CHECKING, Protocol

from buddy.daemon.admission import Admission
from buddy.daemon.agents import Agents
from buddy.daemon.configuration import Configuration
from buddy.daemon.open_files import OpenFiles
from buddy.daemon.operations import Operations
from buddy.daemon.prepared_texts import PreparedTexts
from buddy.daemon.session_list import SessionList
from buddy.daemon.session_model import SessionModels
from buddy.protocol.requests import DaemonStatusReply
from buddy.protocol.web_requests import MintWebLink, MintWebLinkReply, OpenWeb
from buddy.tools.mcp.deferred import DeferredMcp

if TYPE_CHECKING:
    from buddy.cluster.fleet import Fleet


class WebControl(Protocol):
    async def open(self, request: OpenWeb) -> str: ...

    def mint_link(self, request: MintWebLink) -> MintWebLinkReply: ...

    def log_out_all(self) -> int: ...


class LogAddress(Protocol):
    @property
    def shown(self) -> str:
        """The URL without its password."""
        ...


class SharedLog(Protocol):
    @property
    def address(self) -> LogAddress: ...


class Host(Protocol):
    web: WebControl | None
    """None in a runtime without a daemon."""

    fleet: "Fleet | None"
    """None if the daemon has its log for itself."""

    @property
    def shared_log(self) -> SharedLog | None:
        """The log that other daemons use, too; None if the log is this one's own."""
        ...

    def status(self) -> DaemonStatusReply: ...

    @property
    def operations(self) -> Operations: ...

    def stop(self) -> None: ...

    def disconnect_token(self, token_hash: str) -> None: ...

    def trust(self, root: str, *, trusted: bool) -> str: ...

    def has_observer_slot(self, session_id: str) -> bool: ...

    @property
    def admission(self) -> Admission: ...

    @property
    def session_list(self) -> SessionList: ...

    @property
    def agents(self) -> Agents: ...

    @property
    def texts(self) -> PreparedTexts: ...

    @property
    def open_files(self) -> OpenFiles: ...

    @property
    def mcp(self) -> DeferredMcp: ...

    @property
    def models(self) -> SessionModels: ...

    @property
    def configuration(self) -> Configuration: ...

    async def forget(self, session_id: str) -> None: ...
