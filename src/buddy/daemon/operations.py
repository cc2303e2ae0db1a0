"""What a daemon has for its operators: its name, metrics, an audit."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from buddy.daemon.audit import Audit
from buddy.daemon.metrics import Metrics, start_metrics
from buddy.protocol.daemon_requests import RestartDaemon
from buddy.protocol.requests import DaemonStatusReply


class Operations:
    """Nothing but the name until it is started: a runtime without a daemon has neither metrics nor an audit."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.metrics: Metrics | None = None
        self.audit: Audit | None = None
        self.handing_over: RestartDaemon | None = None
        """Set before the daemon stops: its runs are left to the next one instead of being cancelled."""
        self.hand_over_until = math.inf
        """When it stops at the latest, by the monotonic clock."""
        self._restart_asked = asyncio.Event()

    def start(
        self,
        env: Mapping[str, str],
        clock: Callable[[], int],
        status: Callable[[], DaemonStatusReply],
        lag: Callable[[], float],
    ) -> None:
        """Metrics if a collector is named."""
        self.metrics = start_metrics(env, status, clock, lag, self.node)

    def start_audit(self, state_dir: Path, clock: Callable[[], int]) -> None:
        self.audit = Audit(state_dir / "logs" / "audit.log", self.node, clock)

    def restart(self, request: RestartDaemon) -> None:
        """Hand over; if that has begun, in no more time than this request allows."""
        self.handing_over = request
        self.hand_over_until = min(self.hand_over_until, time.monotonic() + request.wait_seconds)
        self._restart_asked.set()

    async def wait_for_restart(self) -> None:
        await self._restart_asked.wait()

    async def close(self) -> None:
        if self.metrics is not None:
            await self.metrics.close()
        if self.audit is not None:
            self.audit.close()
