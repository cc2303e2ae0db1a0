"""The JSON Schemas: in step with the types, true to what is sent, and open to the protocol's own examples."""

from pathlib import Path
from typing import Any, Protocol, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import Raw
from referencing import Registry, Resource

from buddy.protocol.codes import VERSION
from buddy.protocol.envelopes import Request, Response, encode, event_of
from buddy.protocol.events import EVENTS, EventBody
from buddy.protocol.json_events import JsonEvent
from buddy.protocol.request_table import REQUESTS
from buddy.protocol.shapes import ErrorInfo, Shape
from tests.protocol.anything import ids, shapes
from tools import json_events
from tools.protocol_schema import ENVELOPE, EVENT, REQUEST, RESPONSE, Schema, render, schemas, write

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "schema"
SESSION, RUN = "sess_01HXYZ0000", "run_01HXYZ0000"
FILES = schemas()
REGISTRY: Registry[Any] = Registry[Any]().with_resources(
    (name, Resource[Any].from_contents(schema)) for name, schema in FILES.items()
)


class Validator(Protocol):
    """The part of a validator that is used here; the library's own types are not complete."""

    def is_valid(self, instance: Schema) -> bool: ...

    def validate(self, instance: Schema) -> None: ...


VALIDATORS: dict[str, Validator] = {
    name: Draft202012Validator(schema, registry=REGISTRY) for name, schema in FILES.items()
}


def is_valid(envelope: Schema, name: str = ENVELOPE) -> bool:
    return VALIDATORS[name].is_valid(envelope)


def read(line: bytes) -> Schema:
    return msgspec.json.decode(line, type=dict[str, Any])


def request(kind: str, payload: object, **more: object) -> Schema:
    head = {"v": VERSION, "kind": "request", "requestId": "req_01HXYZ0000", "type": kind, "sessionId": SESSION}
    return head | {"payload": payload} | more


def response(kind: str, payload: object, **more: object) -> Schema:
    head = {"v": VERSION, "kind": "response", "requestId": "req_01HXYZ0000", "type": kind, "sessionId": SESSION}
    return head | {"ok": True, "payload": payload, "error": None} | more


def event(kind: str, payload: object, **more: object) -> Schema:
    head = {"v": VERSION, "kind": "event", "sessionId": SESSION, "runId": RUN, "seq": 42, "ts": 1760000000000}
    return head | {"type": kind, "payload": payload} | more


def without(envelope: Schema, name: str) -> Schema:
    return {key: value for key, value in envelope.items() if key != name}


# --- in step with the types ----------------------------------------------------------------------------------------


def test_the_files_are_those_the_types_give():
    written = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    assert written == {name: render(schema) for name, schema in FILES.items()}, "run `make schema`"


def test_the_types_of_plain_events_are_those_the_types_give():
    written = (ROOT / "src/buddy/protocol/json_events.py").read_text(encoding="utf-8")
    assert written == json_events.render(), "run `make schema`"


def test_writing_makes_the_folder(tmp_path: Path):
    write(tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_each_file_is_a_valid_schema(name: str):
    Draft202012Validator.check_schema(FILES[name])


# --- true to what is sent ------------------------------------------------------------------------------------------

bodies: st.SearchStrategy[EventBody] = st.one_of([shapes(body) for body in EVENTS.values()])
# JsonEvent is a union of Event[Literal["…"], payload].
PLAIN_TYPES: dict[str, Any] = {get_args(get_args(event)[0])[0]: event for event in get_args(JsonEvent)}
replies: st.SearchStrategy[tuple[str, Shape]] = st.one_of(
    [st.tuples(st.just(name), shapes(row.reply)) for name, row in REQUESTS.items()]
)
wants: st.SearchStrategy[tuple[str, Shape]] = st.one_of(
    [st.tuples(st.just(name), shapes(row.payload)) for name, row in REQUESTS.items()]
)


@given(bodies, ids("sess"), ids("run"))
def test_every_event_that_can_be_made_is_valid(body: EventBody, session_id: str, run_id: str):
    VALIDATORS[ENVELOPE].validate(read(event_of(body, session_id=session_id, seq=1, ts=0, run_id=run_id).line()))


@given(bodies, ids("sess"), ids("run"))
def test_every_event_has_its_type_as_plain_json(body: EventBody, session_id: str, run_id: str):
    sent = event_of(body, session_id=session_id, seq=1, ts=0, run_id=run_id)
    assert msgspec.convert(sent.to_json(), PLAIN_TYPES[sent.type]) == sent.to_json()


@given(replies, ids("req"), ids("sess"))
def test_every_response_that_can_be_made_is_valid(reply: tuple[str, Shape], request_id: str, session_id: str):
    kind, shape = reply
    VALIDATORS[ENVELOPE].validate(read(Response(request_id, kind, True, encode(shape), None, session_id).line()))


@given(wants, ids("req"), ids("sess"))
def test_every_request_that_can_be_made_is_valid(want: tuple[str, Shape], request_id: str, session_id: str):
    kind, shape = want
    VALIDATORS[ENVELOPE].validate(read(Request(request_id, kind, encode(shape), session_id).line()))


def test_a_failed_response_needs_an_error_of_a_known_code():
    error = ErrorInfo("INVALID_REQUEST", "why", retryable=False)
    failed = Response("req_1", "unknown", False, Raw(b"{}"), error).line()
    assert is_valid(read(failed))
    assert not is_valid(read(failed) | {"error": None})
    assert not is_valid(read(failed.replace(b"INVALID_REQUEST", b"SOMETHING_ELSE")))
    assert not is_valid(response("ping", {"pong": True, "ts": 1}, error=read(failed)["error"]))


# --- the protocol's own examples; ids and texts are complete where it abbreviates -------------------------------------

APPROVAL = "appr_01HXYZ0000"
REPO = {
    "rootPath": "/home/user/projects/Push",
    "remoteUrl": "git@github.com:owner/repo.git",
    "currentBranch": "main",
    "defaultBranch": "main",
}
REPLAY = {"fromSeq": 136, "toSeq": 149, "completed": True, "gap": False}
ATTACHED = {"sessionId": SESSION, "state": "running", "replay": REPLAY}
CRITERION = {"id": "build", "check": "npm -C app run build", "exitCode": 0, "description": "App builds"}
RESULT = {"id": "build", "passed": True, "exitCode": 0, "output": ""}

REQUEST_EXAMPLES: dict[str, Schema] = {
    "hello": {
        "clientName": "push",
        "clientVersion": "0.1.0",
        "capabilities": ["stream_tokens", "approvals", "replay_attach"],
    },
    "start_session": {
        "mode": "interactive",
        "provider": "ollama",
        "sandboxProvider": "local",
        "repo": REPO,
        "metadata": {"source": "cli"},
    },
    "list_sessions": {"limit": 20},
    "attach_session": {"sessionId": SESSION, "lastSeenSeq": 135, "attachToken": "att_0123"},
    "resume_session": {"sessionId": SESSION, "lastSeenSeq": 0},
    "send_user_message": {
        "sessionId": SESSION,
        "clientMessageId": "msg_01HXYZ0000",
        "text": "Review the latest commit and suggest fixes.",
        "acceptanceCriteria": [CRITERION],
    },
    "submit_approval": {
        "sessionId": SESSION,
        "runId": RUN,
        "approvalId": APPROVAL,
        "decision": "approve",
        "comment": "Looks good",
    },
    "cancel_run": {"sessionId": SESSION, "runId": RUN, "reason": "user_cancelled"},
    "ping": {},
}

RESPONSE_EXAMPLES: dict[str, Schema] = {
    "hello": {
        "runtimeName": "pushd",
        "runtimeVersion": "0.1.0",
        "protocolVersion": "push.runtime.v1",
        "capabilities": ["stream_tokens", "approvals", "replay_attach", "headless"],
    },
    "start_session": {"sessionId": SESSION, "state": "idle", "attachToken": "att_0123"},
    "list_sessions": {
        "sessions": [
            {
                "sessionId": SESSION,
                "state": "idle",
                "updatedAt": 1760000000000,
                "repo": {"rootPath": "/home/user/projects/Push", "currentBranch": "main"},
            }
        ]
    },
    "attach_session": ATTACHED,
    "resume_session": ATTACHED,
    "send_user_message": {"runId": RUN, "accepted": True},
    "submit_approval": {"accepted": True},
    "cancel_run": {"accepted": True},
    "ping": {"pong": True, "ts": 1760000000000},
}

EVENT_EXAMPLES: dict[str, Schema] = {
    "session_started": {
        "sessionId": SESSION,
        "state": "idle",
        "mode": "interactive",
        "provider": "ollama",
        "sandboxProvider": "local",
    },
    "session_snapshot": {
        "state": "running",
        "activeRunId": RUN,
        "lastAssistantText": "...",
        "pendingApproval": None,
        "meta": {"provider": "ollama", "sandboxProvider": "local"},
    },
    "status": {"source": "orchestrator", "phase": "Executing tool...", "detail": "sandbox_read_file"},
    "thinking_token": {"text": "Need to inspect recent commit..."},
    "assistant_token": {"text": "I reviewed the commit and found..."},
    "assistant_done": {"messageId": "asst_01HXYZ0000"},
    "tool_call": {
        "source": "sandbox",
        "toolName": "sandbox_read_file",
        "args": {"path": "app/src/hooks/useChat.ts"},
    },
    "tool_result": {
        "source": "sandbox",
        "toolName": "sandbox_read_file",
        "durationMs": 124,
        "isError": False,
        "text": "[Tool Result — sandbox_read_file] ...",
        "structuredError": None,
    },
    "approval_required": {
        "approvalId": APPROVAL,
        "kind": "commit",
        "title": "Approve commit",
        "summary": "feat: improve tool-call parsing",
        "details": {"filesChanged": 4, "insertions": 120, "deletions": 40},
        "options": ["approve", "deny"],
        "expiresAt": 1760000300000,
    },
    "approval_received": {"approvalId": APPROVAL, "decision": "approve", "by": "cli"},
    "warning": {
        "code": "EVENT_GAP",
        "message": "Replay gap detected; snapshot sent.",
        "detail": "Requested lastSeenSeq=120 but earliest retained seq is 140",
    },
    "error": {
        "code": "SANDBOX_UNAVAILABLE",
        "message": "Sandbox provider failed to start workspace.",
        "retryable": True,
        "detail": "modal endpoint timeout",
    },
    "run_complete": {
        "runId": RUN,
        "outcome": "success",
        "summary": "Implemented fix and verified build passes.",
        "acceptance": {"total": 1, "passed": 1, "results": [RESULT]},
        "headless": {"exitCodeHint": 0},
    },
}


@pytest.mark.parametrize("kind", REQUEST_EXAMPLES)
def test_each_request_example_is_valid_and_is_read(kind: str):
    example = request(kind, REQUEST_EXAMPLES[kind])
    VALIDATORS[REQUEST].validate(example)
    assert is_valid(example)
    msgspec.convert(REQUEST_EXAMPLES[kind], REQUESTS[kind].payload)


@pytest.mark.parametrize("kind", RESPONSE_EXAMPLES)
def test_each_response_example_is_valid(kind: str):
    VALIDATORS[RESPONSE].validate(response(kind, RESPONSE_EXAMPLES[kind]))
    assert is_valid(response(kind, RESPONSE_EXAMPLES[kind]))


@pytest.mark.parametrize("kind", EVENT_EXAMPLES)
def test_each_event_example_is_valid_and_is_read(kind: str):
    VALIDATORS[EVENT].validate(event(kind, EVENT_EXAMPLES[kind]))
    assert is_valid(event(kind, EVENT_EXAMPLES[kind]))
    msgspec.convert(EVENT_EXAMPLES[kind], EVENTS[kind])


# --- the protocol's required fields ----------------------------------------------------------------------------------

OPTIONAL = {
    "start_session": {"metadata"},
    "list_sessions": {"limit"},
    "attach_session": {"attachToken"},
    "send_user_message": {"acceptanceCriteria"},
    "submit_approval": {"comment"},
    "cancel_run": {"reason"},
    "session_snapshot": {"activeRunId", "lastAssistantText"},
    "status": {"detail"},
    "warning": {"detail"},
    "error": {"detail"},
    "run_complete": {"acceptance", "headless"},
}


@pytest.mark.parametrize("kind", EVENT_EXAMPLES)
def test_each_field_of_an_event_is_required_or_known_to_be_optional(kind: str):
    payload = EVENT_EXAMPLES[kind]
    for name in payload:
        assert is_valid(event(kind, without(payload, name))) == (name in OPTIONAL.get(kind, ())), name


@pytest.mark.parametrize("kind", REQUEST_EXAMPLES)
def test_each_field_of_a_request_is_required_or_known_to_be_optional(kind: str):
    payload = REQUEST_EXAMPLES[kind]
    for name in payload:
        assert is_valid(request(kind, without(payload, name))) == (name in OPTIONAL.get(kind, ())), name


@pytest.mark.parametrize("kind", RESPONSE_EXAMPLES)
def test_each_field_of_a_response_is_required(kind: str):
    payload = RESPONSE_EXAMPLES[kind]
    assert not [name for name in payload if is_valid(response(kind, without(payload, name)))]


def test_the_run_is_named_by_every_event_of_a_run_and_is_never_null():
    for kind, payload in EVENT_EXAMPLES.items():
        assert is_valid(without(event(kind, payload), "runId")) == (not EVENTS[kind].facts.of_run)
        assert not is_valid(event(kind, payload, runId=None))


def test_the_session_is_named_where_the_protocol_says_so_and_is_never_null():
    for kind in ("attach_session", "resume_session", "send_user_message", "submit_approval", "cancel_run"):
        assert not is_valid(without(request(kind, REQUEST_EXAMPLES[kind]), "sessionId"))
        assert not is_valid(without(response(kind, RESPONSE_EXAMPLES[kind]), "sessionId"))
    for kind in ("hello", "start_session", "list_sessions", "ping"):
        assert is_valid(without(request(kind, REQUEST_EXAMPLES[kind]), "sessionId"))
        assert not is_valid(request(kind, REQUEST_EXAMPLES[kind], sessionId=None))
    assert not is_valid(without(event("warning", EVENT_EXAMPLES["warning"]), "sessionId"))


@pytest.mark.parametrize("name", ["v", "kind", "type", "payload", "seq", "ts"])
def test_every_envelope_has_its_fields(name: str):
    assert not is_valid(without(event("warning", EVENT_EXAMPLES["warning"]), name))


def test_ids_have_their_prefixes():
    good = EVENT_EXAMPLES["approval_received"]
    for bad in ("appr_", "APPR_1", "run_1", "appr_a/b", ""):
        assert not is_valid(event("approval_received", good | {"approvalId": bad}))
    assert not is_valid(event("warning", EVENT_EXAMPLES["warning"], sessionId="../../x"))
    assert not is_valid(request("ping", {}, requestId="1"))


def test_seq_starts_at_one():
    assert not is_valid(event("warning", EVENT_EXAMPLES["warning"], seq=0))
