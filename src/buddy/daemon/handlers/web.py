"""Requests about the web listener."""

from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_runtime
from buddy.daemon.handlers.host import Host, WebControl
from buddy.errors import ProtocolError
from buddy.protocol import web_requests as ask
from buddy.protocol.shapes import Shape


class WebRequests:
    def __init__(self, host: Host) -> None:
        self._host = host

    def handlers(self) -> Handlers:
        return {
            "open_web": on_runtime(ask.OpenWeb, self.open_web),
            "mint_web_link": on_runtime(ask.MintWebLink, self.mint_web_link),
            "revoke_web_logins": on_runtime(ask.RevokeWebLogins, self.revoke_web_logins),
        }

    async def open_web(self, _peer: PeerConnection, request: ask.OpenWeb) -> Shape:
        return ask.OpenWebReply(await self._web.open(request))

    async def mint_web_link(self, _peer: PeerConnection, request: ask.MintWebLink) -> Shape:
        return self._web.mint_link(request)

    async def revoke_web_logins(self, _peer: PeerConnection, _request: ask.RevokeWebLogins) -> Shape:
        return ask.RevokeWebLoginsReply(self._web.log_out_all())

    @property
    def _web(self) -> WebControl:
        if self._host.web is None:
            raise ProtocolError("UNSUPPORTED_REQUEST_TYPE", "only a daemon can open the console")
        return self._host.web
