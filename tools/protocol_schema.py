"""JSON Schemas (draft 2020-12) of the protocol, generated from the types: `python -m tools.protocol_schema [FOLDER]`.

Invariants: the files are a pure function of the types and are checked in, so that a review shows every change of the
wire; whatever the runtime sends is valid by them; objects stay open, because a peer may be newer.
"""

import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from buddy.protocol.codes import VERSION
from buddy.protocol.events import EVENTS
from buddy.protocol.open_file_requests import FileWanted
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.shapes import ErrorInfo, SessionRow, Shape

Schema: TypeAlias = dict[str, Any]

DRAFT = "https://json-schema.org/draft/2020-12/schema"
DEFS = "push-runtime-defs.schema.json"
ENVELOPE = "push-runtime-envelope.schema.json"
REQUEST = "push-runtime-request-envelope.schema.json"
RESPONSE = "push-runtime-response-envelope.schema.json"
EVENT = "push-runtime-event-envelope.schema.json"
UNLOGGED: dict[str, type[Shape]] = {"session_row": SessionRow, "file_wanted": FileWanted}
"""What is sent in the envelope of an event, but is not part of a log: it has no seq."""


def schemas() -> dict[str, Schema]:
    """All files by name."""
    return {
        ENVELOPE: _file(ENVELOPE, "Any envelope", oneOf=[{"$ref": name} for name in (REQUEST, RESPONSE, EVENT)]),
        REQUEST: _request(),
        RESPONSE: _response(),
        EVENT: _event(),
        DEFS: _file(DEFS, "Payloads and the objects in them", **{"$defs": _definitions()}),
    }


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in schemas().items():
        (folder / name).write_bytes(render(schema))


def render(schema: Schema) -> bytes:
    """The text of a file, the same on every machine."""
    return msgspec.json.format(msgspec.json.encode(schema), indent=2) + b"\n"


def _request() -> Schema:
    rules = [
        _when(kind, row.payload, needs=("sessionId",) if row.is_session_bound else ()) for kind, row in REQUESTS.items()
    ]
    return _file(
        REQUEST,
        "What a client wants",
        **_object(
            ("v", "kind", "requestId", "type", "payload"),
            v={"const": VERSION},
            kind={"const": "request"},
            requestId=_id("req"),
            type={"enum": list(REQUESTS)},
            sessionId=_id("sess"),
            payload={"type": "object"},
        ),
        allOf=rules,
    )


def _response() -> Schema:
    rules = [
        _when(kind, row.reply, needs=("sessionId",) if row.is_reply_bound else (), ok=True)
        for kind, row in REQUESTS.items()
    ]
    known = {"properties": {"type": {"enum": list(REQUESTS)}, "error": {"type": "null"}}}
    failed = {"properties": {"error": _ref(ErrorInfo)}}
    outcome = {"if": {"properties": {"ok": {"const": True}}}, "then": known, "else": failed}
    return _file(
        RESPONSE,
        "The answer to a request",
        **_object(
            ("v", "kind", "requestId", "type", "ok", "payload", "error"),
            v={"const": VERSION},
            kind={"const": "response"},
            requestId=_id("req"),
            type={"type": "string"},
            sessionId=_id("sess"),
            ok={"type": "boolean"},
            payload={"type": "object"},
            error={"anyOf": [_ref(ErrorInfo), {"type": "null"}]},
        ),
        allOf=[outcome, *rules],
    )


def _event() -> Schema:
    rules = [_when(kind, body, needs=("runId",) if body.facts.of_run else ()) for kind, body in EVENTS.items()]
    is_unlogged = {"properties": {"type": {"enum": list(UNLOGGED)}}}
    rules += [_when(kind, body) for kind, body in UNLOGGED.items()]
    rules += [{"if": {"not": is_unlogged}, "then": {"required": ["seq"]}}]
    return _file(
        EVENT,
        "Something that happened in a session",
        **_object(
            ("v", "kind", "sessionId", "ts", "type", "payload"),
            v={"const": VERSION},
            kind={"const": "event"},
            sessionId=_id("sess"),
            runId=_id("run"),
            seq={"type": "integer", "minimum": 1},
            ts={"type": "integer", "minimum": 0},
            type={"enum": [*EVENTS, *UNLOGGED]},
            payload={"type": "object"},
        ),
        allOf=rules,
    )


def _definitions() -> Schema:
    shapes: list[type[Shape]] = [ErrorInfo, *UNLOGGED.values(), *EVENTS.values()]
    for row in REQUESTS.values():
        shapes += (row.payload, row.reply)
    _, components = msgspec.json.schema_components(dict.fromkeys(shapes), ref_template="#/$defs/{name}")
    for component in components.values():
        if "description" in component:
            # Newer interpreters take the indentation off docstrings themselves.
            component["description"] = inspect.cleandoc(component["description"])
    return dict(sorted(components.items()))


def _when(kind: str, payload: type[Shape], needs: Iterable[str] = (), **where: bool) -> Schema:
    """If the envelope is of this type, its payload has this shape."""
    condition: Schema = {"type": {"const": kind}} | {name: {"const": value} for name, value in where.items()}
    then: Schema = {"properties": {"payload": _ref(payload)}}
    if needs:
        then["required"] = list(needs)
    return {"if": {"properties": condition}, "then": then}


def _ref(shape: type[Shape]) -> Schema:
    return {"$ref": f"{DEFS}#/$defs/{shape.__name__}"}


def _id(prefix: str) -> Schema:
    return {"type": "string", "pattern": rf"^{re.escape(prefix)}_[A-Za-z0-9._:-]+$"}


def _object(required: Iterable[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": list(required), "properties": properties}


def _file(name: str, title: str, **body: Any) -> Schema:
    return {"$schema": DRAFT, "$id": name, "title": f"{VERSION}: {title}", **body}


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "schema"))
