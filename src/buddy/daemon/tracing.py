"""OpenTelemetry traces: a listener of committed events, if the environment configures an export.

Invariants: the turn loop does not know of it; events wait in a bounded queue and become spans in a separate task;
without `OTEL_*` or the `[otel]` extra nothing is imported; spans contain no messages of people or models unless
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from buddy.protocol.envelopes import Event
from buddy.protocol.events import events_where

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from buddy.daemon.spans import Spans

MAX_WAITING = 10_000
CLOSE_SECONDS = 5.0
TRACED = events_where(lambda facts: facts.traced)

log = logging.getLogger("buddy.tracing")


def start_tracing(env: Mapping[str, str]) -> "Tracing | None":
    """A tracer that exports by OTLP over HTTP; None unless the environment names a collector."""
    endpoint = endpoint_of(env)
    if endpoint is None:
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        log.warning("OTEL_* is set, but nothing exports traces here: pip install '.[otel]' in Buddy's clone")
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from buddy.daemon.spans import Spans
    from buddy.version import VERSION

    resource = Resource.create({"service.name": env.get("OTEL_SERVICE_NAME") or "buddy", "service.version": VERSION})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=CLOSE_SECONDS)))
    captures = env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").lower() == "true"
    return Tracing(provider, Spans(provider.get_tracer("buddy", VERSION), captures=captures))


def endpoint_of(env: Mapping[str, str]) -> str | None:
    """Where traces are sent, by OpenTelemetry's variables; None if nowhere."""
    if env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if env.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return None
    own, common = env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), env.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if own:
        return own
    if common:
        return f"{common.rstrip('/')}/v1/traces"
    return "http://127.0.0.1:4318/v1/traces" if env.get("OTEL_TRACES_EXPORTER") else None


class Tracing:
    def __init__(self, provider: "TracerProvider", spans: "Spans") -> None:
        self._provider = provider
        self._spans = spans
        self._waiting: deque[Event] = deque()
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._dropped = 0

    def observe(self, events: Sequence[Event]) -> None:
        """Queue what is traced; events beyond the limit are dropped and counted."""
        for event in events:
            if event.type not in TRACED:
                continue
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append(event)
            else:
                self._dropped += 1
        if self._waiting:
            self._news.set()
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._work(), name="tracing")

    async def close(self) -> None:
        """Export what is left, within a time limit."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._trace()
        self._spans.abandon()
        if self._dropped:
            log.warning("%d events were not traced: they came too fast", self._dropped)
        try:
            async with asyncio.timeout(2 * CLOSE_SECONDS):
                await asyncio.to_thread(self._provider.shutdown)
        except TimeoutError:
            log.warning("the last traces could not be exported")

    async def _work(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            self._trace()

    def _trace(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            body = event.body()
            if body is not None and event.run_id is not None:
                self._spans.apply(event, body)
