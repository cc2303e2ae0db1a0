"""Requests about the past of a session, and the profiles to choose from."""

from typing import Literal

from buddy.protocol.shapes import Positive, Shape

MarkKind = Literal["message", "turn", "approval", "error", "compaction", "recovery"]


class ListMarks(Shape, frozen=True):
    pass


class Mark(Shape, frozen=True):
    """A point of a session that somebody may want to go to."""

    seq: Positive
    kind: MarkKind
    label: str


class ListMarksReply(Shape, frozen=True):
    marks: tuple[Mark, ...]


class ListProfiles(Shape, frozen=True):
    pass


class ProfileInfo(Shape, frozen=True):
    """`problem` says why the profile cannot be used as it is."""

    name: str
    model: str
    api: str
    default: bool = False
    problem: str | None = None


class ListProfilesReply(Shape, frozen=True):
    profiles: tuple[ProfileInfo, ...]
