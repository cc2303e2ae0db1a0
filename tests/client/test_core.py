"""The client without I/O: what a connection begins with, which events are new, and which requests are repeated."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.client.core import Core, RequestResult
from buddy.client.steps import CHUNK, find_session, read_blob
from buddy.errors import ProtocolError, UserError
from buddy.protocol.basics import VERSION
from buddy.protocol.envelopes import parse_request, payload_of
from buddy.protocol.requests import AttachSession, Hello

Fields = dict[str, Any]


class Peer:
    """A core, and what a runtime would see of it."""

    def __init__(self) -> None:
        self.core: Core[Fields] = Core("test", "1", lambda hello: hello["protocolVersion"], lambda reply: reply["gap"])
        self.last_seq = 1 << 40
        """Of the runtime's logs."""
        self.answers: list[RequestResult[Fields]] = []

    def sent(self) -> list[Fields]:
        lines, self.core.outgoing = self.core.outgoing, []
        return [json.loads(line) for line in lines]

    def ask(self, kind: str, *, repeat: bool = False) -> None:
        self.core.request(kind, {}, self.answers.append, "sess_1", repeat=repeat)

    def join(self) -> list[Fields]:
        """Connect, and have everything answered that a connection begins with."""
        self.core.connect()
        found = self.sent()
        for request in found:
            if request["type"] == "hello":
                self.core.answer(request["requestId"], {"protocolVersion": VERSION}, None)
            if request["type"] == "attach_session":
                is_beyond = request["payload"]["lastSeenSeq"] > self.last_seq
                self.core.answer(request["requestId"], {"gap": self.last_seq + 1 if is_beyond else None}, None)
        return found


def test_a_connection_starts_with_hello_and_each_session_at_its_cursor() -> None:
    peer = Peer()
    assert [request["type"] for request in peer.join()] == ["hello"]
    peer.core.follow("sess_1", "att_1")
    peer.core.follow("sess_2", None)
    peer.core.follow("sess_3", None)
    peer.core.forget("sess_3")
    assert peer.core.is_new("sess_1", 7)
    requests = peer.join()
    typed = [payload_of(parse_request(json.dumps(request).encode())) for request in requests]
    assert isinstance(typed[0], Hello)
    assert typed[1:] == [AttachSession("sess_1", 7, "att_1"), AttachSession("sess_2", 0, None)]
    assert peer.core.is_joined


def test_events_of_a_log_that_lost_its_end_are_new() -> None:
    peer = Peer()
    peer.core.follow("sess_1", None)
    assert peer.core.is_new("sess_1", 500)
    peer.last_seq = 14
    peer.join()
    assert peer.core.is_new("sess_1", 15)
    assert not peer.core.is_new("sess_1", 15)
    assert peer.join()[1]["payload"]["lastSeenSeq"] == 15


@given(st.lists(st.tuples(st.sampled_from(["sess_1", "sess_2"]), st.integers(1, 20))))
def test_an_event_is_new_once_and_never_behind_the_cursor(delivered: list[tuple[str, int]]) -> None:
    core = Peer().core
    taken = [event for event in delivered if core.is_new(*event)]
    assert len(set(taken)) == len(taken)
    for session in ("sess_1", "sess_2"):
        seqs = [seq for session_id, seq in taken if session_id == session]
        assert seqs == sorted(seqs)


@given(st.lists(st.booleans(), max_size=6), st.data())
def test_every_request_is_answered_exactly_once_whatever_connection_is_lost(
    repeated: list[bool], data: st.DataObject
) -> None:
    peer = Peer()
    peer.join()
    for repeat in repeated:
        peer.ask("ping", repeat=repeat)
    open_requests = {request["requestId"]: repeat for request, repeat in zip(peer.sent(), repeated, strict=True)}
    for _ in range(data.draw(st.integers(0, 3))):
        for request_id in data.draw(st.lists(st.sampled_from(sorted(open_requests)))) if open_requests else []:
            peer.core.answer(request_id, {}, None)
            open_requests.pop(request_id, None)
        peer.core.disconnect()
        open_requests = {key: repeat for key, repeat in open_requests.items() if repeat}
        again = [request["requestId"] for request in peer.join() if request["type"] == "ping"]
        assert sorted(again) == sorted(open_requests)
    peer.core.disconnect(for_good=True)
    assert len(peer.answers) == len(repeated)
    assert not peer.core.is_waiting


def test_events_of_an_earlier_attachment_are_dropped_until_the_new_one_is_answered() -> None:
    peer = Peer()
    peer.join()
    assert peer.core.is_new("sess_1", 7)
    peer.core.seek("sess_1", 0)
    peer.ask("attach_session")
    (request,) = peer.sent()
    assert not peer.core.is_new("sess_1", 8)
    assert peer.core.is_new("sess_2", 8)
    peer.core.answer(request["requestId"], {"gap": None}, None)
    assert [peer.core.is_new("sess_1", seq) for seq in (1, 2, 8)] == [True, True, True]


def test_a_refused_attach_is_kept_for_the_driver() -> None:
    peer = Peer()
    peer.core.follow("sess_1", "att_1")
    peer.core.connect()
    hello, attach = peer.sent()
    peer.core.answer(attach["requestId"], None, ProtocolError("SESSION_NOT_FOUND", "gone"))
    peer.core.answer(hello["requestId"], {"protocolVersion": VERSION}, None)
    assert not peer.core.is_joined
    assert peer.core.refusal is not None
    assert peer.core.refusal.code == "SESSION_NOT_FOUND"


def test_a_runtime_of_another_version_is_refused() -> None:
    peer = Peer()
    peer.core.connect()
    (hello,) = peer.sent()
    peer.core.answer(hello["requestId"], {"protocolVersion": "push.v9"}, None)
    assert peer.core.refusal is not None
    assert peer.core.refusal.code == "UNSUPPORTED_PROTOCOL_VERSION"


def test_an_unsolicited_response_is_ignored() -> None:
    peer = Peer()
    peer.join()
    peer.core.answer("req_unknown", {}, None)
    assert peer.answers == []


@pytest.mark.parametrize(
    ("wanted", "found"),
    [("a", "sess_AB"), ("sess_ab", "sess_AB"), ("c", "2 sessions"), ("x", "no session"), ("sess_", "no session")],
)
def test_the_start_of_an_id_is_enough(wanted: str, found: str) -> None:
    steps = find_session(wanted, ".")
    assert next(steps).kind == "list_sessions"
    listed = {"sessions": [{"sessionId": session_id} for session_id in ("sess_AB", "sess_CD", "sess_CE")]}
    if found.startswith("sess_"):
        with pytest.raises(StopIteration) as end:
            steps.send(listed)
        assert end.value.value == found
    else:
        with pytest.raises(UserError, match=found):
            steps.send(listed)


def test_a_character_that_a_chunk_cuts_is_read_again() -> None:
    content = ("x" * (CHUNK - 1) + "größe" * 3).encode()
    steps = read_blob("sess_1", "blob")
    asked = next(steps)
    with pytest.raises(StopIteration) as end:
        while True:
            offset = asked.payload["offset"]
            text = content[offset : offset + CHUNK].decode(errors="replace")
            asked = steps.send({"text": text, "total": len(content)})
    assert end.value.value == content.decode()
