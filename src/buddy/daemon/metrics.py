"""OpenTelemetry metrics of a daemon: a listener of committed events, and a few numbers that are looked at on export.

Invariants: without `OTEL_*` or the `[otel]` extra nothing is imported; no name, text or session is in a metric; what
cannot be exported is dropped and never delays a run.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from buddy.protocol.envelopes import Event
from buddy.protocol.events import RunComplete
from buddy.protocol.requests import DaemonStatusReply
from buddy.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation
    from opentelemetry.sdk.metrics import MeterProvider

CLOSE_SECONDS = 5.0
DEFAULT_URL = "http://127.0.0.1:4318/v1/metrics"

log = logging.getLogger("buddy.tracing")


class Gauges:
    """Numbers that others set and the export reads."""

    def __init__(self) -> None:
        self.queue = 0


class Metrics:
    """`status` and `lag` are read at every export, in another thread."""

    def __init__(
        self,
        provider: "MeterProvider",
        status: Callable[[], DaemonStatusReply],
        clock: Callable[[], int],
        lag: Callable[[], float],
    ) -> None:
        meter = provider.get_meter("buddy", VERSION)
        self.gauges = Gauges()
        self._provider = provider
        self._clock = clock
        self._started = meter.create_counter("buddy.runs.started", description="runs that began, or went on")
        self._completed = meter.create_counter("buddy.runs.completed", description="runs that ended, by outcome")
        self._takes = meter.create_counter("buddy.takes", description="sessions that this node took, by reason")
        self._append = meter.create_histogram(
            "buddy.append.duration", unit="s", description="from recording an event to its commit"
        )
        _watch(meter, "buddy.runs.active", lambda: status().runs)
        _watch(meter, "buddy.sessions.open", lambda: status().sessions)
        _watch(meter, "buddy.connections", lambda: status().connections)
        _watch(meter, "buddy.queue", lambda: self.gauges.queue)
        _watch(meter, "buddy.lag", lag, "s")

    def observe(self, events: Sequence[Event]) -> None:
        """Count what was committed: a listener of all sessions."""
        self._append.record(max(0, self._clock() - events[0].ts) / 1000)
        for event in events:
            if event.type == "run_started":
                self._started.add(1)
            elif event.type == "run_complete" and isinstance(body := event.body(), RunComplete):
                self._completed.add(1, {"outcome": body.outcome})

    def count_take(self, reason: str) -> None:
        self._takes.add(1, {"reason": reason})

    async def close(self) -> None:
        """Export what is left, within a time limit."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.to_thread(self._provider.shutdown, CLOSE_SECONDS * 1000)


def start_metrics(
    env: Mapping[str, str],
    status: Callable[[], DaemonStatusReply],
    clock: Callable[[], int],
    lag: Callable[[], float],
    node: str,
) -> Metrics | None:
    """Metrics that are exported by OTLP over HTTP; None unless the environment names a collector."""
    endpoint = metrics_endpoint(env)
    if endpoint is None or find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        return None
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource

    logging.getLogger("opentelemetry.exporter.otlp.proto.http").setLevel(logging.CRITICAL)
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=endpoint, timeout=CLOSE_SECONDS))
    name = env.get("OTEL_SERVICE_NAME") or "buddy"
    described = {"service.name": name, "service.version": VERSION, "service.instance.id": node}
    provider = MeterProvider([reader], Resource.create(described), shutdown_on_exit=False)
    return Metrics(provider, status, clock, lag)


def metrics_endpoint(env: Mapping[str, str]) -> str | None:
    """Where metrics are sent, by OpenTelemetry's variables; None if nowhere."""
    exporter = env.get("OTEL_METRICS_EXPORTER")
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true" or (exporter or "otlp") != "otlp":
        return None
    own, common = env.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"), env.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if own:
        return own
    if common:
        return f"{common.rstrip('/')}/v1/metrics"
    return DEFAULT_URL if exporter else None


def _watch(meter: "Meter", name: str, read: Callable[[], float], unit: str = "") -> None:
    from opentelemetry.metrics import Observation

    def look(_: "CallbackOptions") -> "Iterable[Observation]":
        return [Observation(read())]

    meter.create_observable_gauge(name, [look], unit=unit)
