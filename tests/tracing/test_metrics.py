"""Metrics, as a real OTLP receiver gets them from a real daemon."""

from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from buddy.daemon.metrics import metrics_endpoint
from tests.harness.clients import send, start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.http_server import ThreadedServer


class MetricsCollector(ThreadedServer):
    """The last value of each metric, by name and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[tuple[str, ...], float] = {}
        self.resources: list[dict[str, str]] = []

    def answer(self, path: str, body: bytes) -> bytes:
        if path == "/v1/metrics":
            self.take(body)
        return b""

    def take(self, body: bytes) -> None:
        for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            found = of_resource.resource.attributes
            self.resources.append({entry.key: entry.value.string_value for entry in found})
            for metric in (one for scope in of_resource.scope_metrics for one in scope.metrics):
                self._take(metric)

    def _take(self, metric: Any) -> None:
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points:
            name = (metric.name, *(entry.value.string_value for entry in point.attributes))
            value = point.count if kind == "histogram" else point.as_int or point.as_double
            self.values[name] = value


async def test_a_daemon_counts_its_runs_and_appends(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    with MetricsCollector() as collector:
        daemon.start(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_TRACES_EXPORTER="none")
        async with wire_client(daemon) as client:
            session_id = await start(client, daemon)
            for _ in range(2):
                await send(client, session_id, "count")
                await client.wait_for("run_complete")
        daemon.stop()
    values = collector.values
    assert values["buddy.runs.started",] == 2
    assert values["buddy.runs.completed", "success"] == 2
    assert values["buddy.append.duration",] >= 4
    assert {"buddy.runs.active", "buddy.sessions.open", "buddy.connections", "buddy.queue", "buddy.lag"} <= {
        name for name, *_ in values
    }
    assert collector.resources[-1]["service.name"] == "buddy"
    assert collector.resources[-1]["service.instance.id"]


def test_the_variables_of_opentelemetry_decide_where_metrics_go() -> None:
    assert metrics_endpoint({}) is None
    assert metrics_endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:1/"}) == "http://c:1/v1/metrics"
    assert metrics_endpoint({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/m"}) == "http://c/m"
    assert metrics_endpoint({"OTEL_METRICS_EXPORTER": "otlp"}) == "http://127.0.0.1:4318/v1/metrics"
    assert metrics_endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "none"}) is None
    assert metrics_endpoint({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}) is None
