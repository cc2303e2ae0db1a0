"""A policy reaches sub-agents that move to another node meanwhile."""

from typing import Any

import pytest

from buddy.errors import ProtocolError
from buddy.protocol.requests import SetApprovalPolicy
from buddy.sessions import child_policy


class Moving:
    """Sessions of which one moves: the next nodes that are asked do not have it yet."""

    def __init__(self, *errors: ProtocolError) -> None:
        self.services = self.elsewhere = self
        self._errors = list(errors)
        self.asked = 0

    def live(self, session_id: str) -> None:
        del session_id

    async def ask(self, *_: object) -> None:
        self.asked += 1
        if self._errors:
            raise self._errors.pop(0)


def children_of(_sessions: object, _session_id: str) -> list[str]:
    return ["sess_child"]


async def change(sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_policy, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(child_policy, "working_children", children_of)
    parent: Any = type("Parent", (), {"session_id": "sess_parent"})
    await child_policy.follow_policy(sessions, parent, SetApprovalPolicy(policy="none"), "me")


async def test_a_sub_agent_that_moves_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = ProtocolError("OVERLOADED", "no node could serve this in time", retryable=True)
    sessions = Moving(busy, busy)
    await change(sessions, monkeypatch)
    assert sessions.asked == 3


async def test_a_refusal_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Moving(ProtocolError("INVALID_REQUEST", "it cannot", retryable=False))
    await change(sessions, monkeypatch)
    assert sessions.asked == 1
