"""Requests about the past of a session, and the profiles to choose from."""

from typing import Literal

from buddy.protocol.ids import RunId
from buddy.protocol.shapes import Count, Positive, Shape

MarkKind = Literal["message", "turn", "approval", "error", "compaction", "recovery"]
Change = Literal["added", "modified"]


class ListMarks(Shape, frozen=True):
    pass


class Mark(Shape, frozen=True):
    """A point of a session that somebody may want to go to."""

    seq: Positive
    kind: MarkKind
    label: str


class ListMarksReply(Shape, frozen=True):
    marks: tuple[Mark, ...]


class ListChanges(Shape, frozen=True):
    """A run, a turn of a run, a call, what changed after `to_seq`, or `all`; else the last run that changed files.

    `at_seq`: only what had changed by then. `diff` asks for the diffs, too.
    """

    run_id: RunId | None = None
    turn: Positive | None = None
    call_id: str | None = None
    to_seq: Count | None = None
    all: bool = False
    at_seq: Positive | None = None
    diff: bool = False


class FileChange(Shape, frozen=True):
    """`diff` is a unified diff; what is too long is cut and says so."""

    path: str
    change: Change
    added: Count
    removed: Count
    diff: str | None = None


class ListChangesReply(Shape, frozen=True):
    """`uncovered` says what is not in the list."""

    files: tuple[FileChange, ...]
    uncovered: str


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
