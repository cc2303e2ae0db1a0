"""Ids: a prefix that says what is named, and a ULID that sorts by time of creation."""

import re
from typing import Annotated, Protocol

from msgspec import Meta

from buddy.protocol import basics

Ulids = basics.Ulids
encode_ulid = basics.encode_ulid

ID = re.compile(r"(?:req|sess|run|msg|appr|att|ques)_[A-Za-z0-9._:-]{1,120}")


# Ids of existing things have their pattern only in the schema: a wrong one is answered as not found.
SessionId = Annotated[str, Meta(extra_json_schema={"pattern": r"^sess_[A-Za-z0-9._:-]+$"})]
RunId = Annotated[str, Meta(extra_json_schema={"pattern": r"^run_[A-Za-z0-9._:-]+$"})]
ApprovalId = Annotated[str, Meta(extra_json_schema={"pattern": r"^appr_[A-Za-z0-9._:-]+$"})]
QuestionId = Annotated[str, Meta(extra_json_schema={"pattern": r"^ques_[A-Za-z0-9._:-]+$"})]
AttachToken = Annotated[str, Meta(extra_json_schema={"pattern": r"^att_[A-Za-z0-9._:-]+$"})]
# The client creates this one, so a wrong one is an invalid request.
MessageId = Annotated[str, Meta(pattern=r"^msg_[A-Za-z0-9._:-]+$")]


class Ids(Protocol):
    """Where new ids come from; passed in, so that a run can be repeated."""

    def __call__(self, prefix: str) -> str: ...


class CountingIds:
    """Ids 1, 2, 3… for tests and replays that compare complete event lists."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, prefix: str) -> str:
        self._next += 1
        return f"{prefix}_{encode_ulid(self._next)}"


def is_id(text: str, prefix: str) -> bool:
    """Whether this could be one of our ids; anything else is not looked up anywhere."""
    return text.startswith(prefix + "_") and ID.fullmatch(text) is not None
