"""What the checkpoint store is asked and what it answers: plain data, for those who may never need the store."""

from collections.abc import Callable, Mapping
from hashlib import sha256

from msgspec import Struct

from buddy.checkpoints.entries import Change


class CallKey(Struct, frozen=True):
    """A call of a run; with an empty call, the run as a whole."""

    session: str
    run: str
    call: str = ""

    @property
    def checkpoint(self) -> str:
        return "cp_" + sha256(f"{self.session}/{self.run}/{self.call}".encode()).hexdigest()[:26]


class Scope(Struct, frozen=True):
    """What a checkpoint watches: a workspace, or only some paths in it, relative to it.

    `parent` is the session that waits for this one.
    """

    root: str
    paths: tuple[str, ...] | None = None
    parent: str = ""
    private: tuple[str, ...] = ()
    is_closed: Callable[[str], bool] = lambda _: False


class Coverage(Struct, frozen=True):
    """What a checkpoint leaves out."""

    skipped: Mapping[str, str] = {}
    unknown: int = 0
    pending: int = 0
    is_partial: bool = False
    is_off: str = ""


class Ended(Struct, frozen=True):
    """What a call changed; `overlaps` are other sessions that worked in the same place meanwhile."""

    checkpoint: str
    changes: tuple[Change, ...]
    coverage: Coverage
    overlaps: tuple[str, ...] = ()
    is_recovered: bool = False


class Recorded(Struct, frozen=True):
    """What a checkpoint changed, and when it began and ended by the store's clock; 0 if that is not known."""

    changes: list[Change]
    began: int = 0
    ended: int = 0


class Conflict(Struct, frozen=True):
    path: str
    why: str


class Plan(Struct, frozen=True):
    """`steps` lead from what is there now to what should be; `conflicts` are left alone."""

    steps: tuple[Change, ...]
    conflicts: tuple[Conflict, ...]


class Usage(Struct, frozen=True):
    """What the store holds; sizes are in bytes. `pinned` is the part that is packs of repositories."""

    size: int
    limit: int
    pinned: int
    contents: int
    checkpoints: int
    workspaces: int
