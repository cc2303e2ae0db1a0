"""Whether this daemon lives, and whether it should get clients: for load balancers and supervisors.

Invariants: no login is needed and nothing is revealed but one word; a daemon that cannot reach its log lives, and is
not ready.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from buddy.daemon.runtime import Runtime
from buddy.errors import BuddyError

LOG_SECONDS = 2.0
NO_SESSION = "sess_none"
"""Looking for one row is the least that every log can be asked."""


class Health:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def routes(self) -> list[Route]:
        return [
            *(Route(path, self.live) for path in ("/healthz", "/health")),
            *(Route(path, self.ready) for path in ("/readyz", "/ready")),
        ]

    async def live(self, _: Request) -> Response:
        return _answer("ok", 200)

    async def ready(self, _: Request) -> Response:
        fleet = self._runtime.fleet
        reason = "stopping" if self._runtime.stopping.is_set() else None
        if reason is None and fleet is not None and fleet.state != "ready":
            reason = fleet.state
        if reason is None and not self._runtime.configuration.current.node.gateway:
            reason = "not a gateway"
        if reason is None:
            try:
                async with asyncio.timeout(LOG_SECONDS):
                    await self._runtime.log.get(NO_SESSION)
            except (TimeoutError, BuddyError, OSError):
                reason = "log unavailable"
        return _answer("ready", 200) if reason is None else _answer(reason, 503)


def _answer(status: str, code: int) -> Response:
    return JSONResponse({"status": status}, code, {"Cache-Control": "no-store"})
