"""Metrics, as a real OTLP receiver gets them from a real daemon."""

import gzip
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from buddy.daemon.metrics import metrics_endpoint
from tests.harness.clients import send, start, wire_client
from tests.harness.daemon import Daemon


class MetricsCollector:
    """The last value of each metric, by name and attributes."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], float] = {}
        self.resources: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers["content-encoding"] == "gzip":
                    body = gzip.decompress(body)
                if self.path == "/v1/metrics":
                    collector.take(body)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
                """Nothing is written to the test's output."""

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

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
