"""A server or an agent asks the person for data, in the middle of a call."""

from typing import Any, Literal

from msgspec import Struct

from buddy.protocol.facts import EventFacts, Payload
from buddy.protocol.ids import QuestionId, SessionId

QuestionMode = Literal["form", "url"]
QuestionAction = Literal["accept", "decline", "cancel"]


class QuestionAsked(Payload, frozen=True, kw_only=True):
    """`source` is who asks. A form has a flat JSON `schema`; in mode `url`, the person is to visit `url`.

    A sub-agent's question names its session, its `parent` and its `agent`: clients of the parent receive it, too.
    """

    facts = EventFacts(of_run=True, copied=True, for_parent=True)
    question_id: QuestionId
    source: str
    message: str
    mode: QuestionMode
    schema: dict[str, Any] | None = None
    url: str | None = None
    call_id: str | None = None
    session_id: SessionId | None = None
    parent: SessionId | None = None
    agent: str | None = None


class QuestionAnswered(Payload, frozen=True, kw_only=True):
    """The answer itself goes to the server that asked, and is not recorded."""

    facts = EventFacts(of_run=True, copied=True, for_parent=True)
    question_id: QuestionId
    by: str
    action: QuestionAction


class PersonQuestion(Struct, frozen=True):
    """What a tool wants to ask."""

    source: str
    message: str
    mode: QuestionMode = "form"
    schema: dict[str, Any] | None = None
    url: str | None = None


class PersonAnswer(Struct, frozen=True):
    action: QuestionAction
    answer: dict[str, Any] | None = None
