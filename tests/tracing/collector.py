"""A collector on this machine: an OTLP/HTTP receiver that decodes what it is sent."""

from msgspec import Struct
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.harness.http_server import ThreadedServer

Plain = str | int | float | bool | list[str]


class Received(Struct, frozen=True):
    """A span as it came over the wire."""

    name: str
    kind: int
    span_id: str
    parent_id: str
    trace_id: str
    start_ns: int
    end_ns: int
    is_error: bool
    attributes: dict[str, Plain]
    events: list[str]


class Collector(ThreadedServer):
    """Use it as `with Collector() as collector`; `spans` is what has come."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Received] = []
        self.resources: list[dict[str, Plain]] = []
        self.bodies: list[bytes] = []

    def answer(self, path: str, body: bytes) -> bytes:
        assert path == "/v1/traces"
        self.take(body)
        return b""

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append(_plain(list(of_resource.resource.attributes)))
            for of_scope in of_resource.scope_spans:
                for span in of_scope.spans:
                    self.spans.append(
                        Received(
                            span.name,
                            span.kind,
                            span.span_id.hex(),
                            span.parent_span_id.hex(),
                            span.trace_id.hex(),
                            span.start_time_unix_nano,
                            span.end_time_unix_nano,
                            span.status.code == 2,
                            _plain(list(span.attributes)),
                            [event.name for event in span.events],
                        )
                    )

    def named(self, name: str) -> list[Received]:
        return [span for span in self.spans if span.name == name]

    def parent_of(self, span: Received) -> str:
        return next((other.name for other in self.spans if other.span_id == span.parent_id), "")


def _plain(attributes: list[KeyValue]) -> dict[str, Plain]:
    return {entry.key: _value(entry.value) for entry in attributes}


def _value(value: AnyValue) -> Plain:
    match value.WhichOneof("value"):
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case "array_value":
            return [item.string_value for item in value.array_value.values]
        case _:
            return value.string_value
