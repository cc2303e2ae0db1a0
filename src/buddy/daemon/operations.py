"""What a daemon has for its operators: its name, metrics, an audit."""

from collections.abc import Callable, Mapping
from pathlib import Path

from buddy.daemon.audit import Audit
from buddy.daemon.metrics import Metrics, start_metrics
from buddy.protocol.requests import DaemonStatusReply


class Operations:
    """Nothing but the name until it is started: a runtime without a daemon has neither metrics nor an audit."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.metrics: Metrics | None = None
        self.audit: Audit | None = None

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

    async def close(self) -> None:
        if self.metrics is not None:
            await self.metrics.close()
        if self.audit is not None:
            self.audit.close()
