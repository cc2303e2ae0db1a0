"""What a call changed in the workspace, and what was brought back."""

from typing import Literal

from buddy.protocol.facts import EventFacts, Informational, Payload
from buddy.protocol.ids import SessionId
from buddy.protocol.shapes import Count, Shape

Change = Literal["added", "modified", "deleted"]


class ChangedFile(Shape, frozen=True):
    """A path relative to the workspace, and how many lines were added and removed."""

    path: str
    change: Change
    added: Count
    removed: Count


class FilesChanged(Informational, frozen=True, kw_only=True):
    """After a call that changed the workspace. Without `call_id`, it happened in the run, outside of its calls.

    `total`: how many files changed, if `files` does not list all of them. `uncovered`: what is not in the list, or
    cannot be brought back. `overlaps`: other sessions worked here meanwhile, so some changes may be theirs.
    """

    facts = EventFacts(of_run=True, copied=True)
    checkpoint_id: str
    files: tuple[ChangedFile, ...]
    call_id: str | None = None
    total: Count | None = None
    uncovered: str | None = None
    overlaps: tuple[SessionId, ...] = ()


class FilesRestored(Payload, frozen=True, kw_only=True):
    """After changes of a session were undone. `change` is what the undo did to a file. The model learns of it.

    `undid` names the checkpoints that were undone. `redo`: one of them was itself an undo. `conflicts` are paths that
    were left alone. `recovered`: the process died meanwhile, and the next one finished it.
    """

    facts = EventFacts(lasts=True, lasts_for_agents=True, copied=True)
    checkpoint_id: str
    files: tuple[ChangedFile, ...]
    by: str
    undid: tuple[str, ...] = ()
    call_id: str | None = None
    total: Count | None = None
    conflicts: tuple[str, ...] = ()
    redo: bool = False
    recovered: bool = False
    uncovered: str | None = None
