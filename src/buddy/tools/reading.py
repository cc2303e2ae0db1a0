"""Where a tool reads: in the workspace without a question, anywhere else only what a person approved.

Invariants: what is asked about outside the workspace is a real path, all links followed; what is read is that path,
without following a link that has taken its place; credentials and Buddy's own files are never read, and no search
includes them.
"""

import os
import posixpath

from msgspec import Struct

from buddy.capabilities import has
from buddy.errors import ToolError
from buddy.protocol.intents import Other
from buddy.targets.contract import Entry, ExactFiles, without_terminal
from buddy.tools.contract import Call, Place

OUTSIDE = "this is outside the workspace"
# Below the home directory of the user, and anywhere.
SECRET_HOMES = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".netrc", ".git-credentials"),
    *(".config/gcloud", ".config/gh", ".config/buddy", ".local/share/keyrings", ".local/state/buddy", ".factory"),
    *(".local/share/opencode", ".codex", ".claude", ".gemini", ".npmrc", ".pypirc", ".pgpass", ".config/op"),
)
SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/proc", "/sys", "/dev", "/run/secrets")


class Readable(Struct, frozen=True):
    """A real path, and whether it is outside the workspace."""

    path: str
    is_outside: bool = False


async def find_readable(path: str, place: Place, *, searches: bool = False) -> Readable:
    """Where a path leads; ToolError if nobody may approve reading it. `searches`: all files below it are read."""
    try:
        return Readable(await place.target.locate(path, root=place.root))
    except ToolError as inside:
        full = posixpath.join(place.root, path)
        if path.startswith("~"):
            raise
        try:
            found = await place.target.locate(full, root="/")
        except ToolError:
            raise inside from None
        if (found + "/").startswith(place.root.rstrip("/") + "/"):
            raise  # it is inside, and wrong for another reason
    check_private(found, place, searches=searches)
    return Readable(found, is_outside=True)


def check_private(path: str, place: Place, *, searches: bool = False) -> None:
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - plain text
    private = (*place.private, *SECRETS, *(f"{home}/{name}" for name in SECRET_HOMES))
    for one in private:
        if f"{path}/".startswith(f"{one.rstrip('/')}/"):
            raise ToolError(f"{path} is not read: {one} may hold credentials; ask the user for what you need of it")
        if searches and f"{one.rstrip('/')}/".startswith(f"{path.rstrip('/')}/"):
            raise ToolError(f"{path} is not searched: {one} in it may hold credentials; name a directory below it")


def read_intent(title: str, found: Readable, place: Place, shown: dict[str, object], summary: str = "") -> Other:
    """The intent of reading something; outside the workspace a person is asked, whatever a policy covers."""
    return Other(
        title=f"{title} outside the workspace" if found.is_outside else title,
        summary=summary or found.path,
        target=place.target.name,
        path=found.path,
        shown={**shown, "outside": True} if found.is_outside else shown,
        caution=OUTSIDE if found.is_outside else "",
        is_outside=found.is_outside,
    )


async def read_approved(call: Call, limit: int) -> bytes:
    """The content of the file outside the workspace that this call was approved for."""
    target = without_terminal(call.place.target)
    if has(target, ExactFiles):
        return await target.read_exact(call.outside, limit=limit)
    await _check_same(call)
    return await target.read_file(call.outside, root="/", limit=limit)


async def list_approved(call: Call, below: str = "") -> list[Entry]:
    """The entries of the directory outside the workspace that this call was approved for, or of one below it."""
    target, path = without_terminal(call.place.target), posixpath.join(call.outside, below)
    check_private(path, call.place)
    if has(target, ExactFiles):
        return await target.list_exact(path)
    await _check_same(call)
    return await target.list_dir(path, root="/")


async def _check_same(call: Call) -> None:
    if await call.place.target.locate(call.outside, root="/") != call.outside:
        raise ToolError(f"{call.outside!r} is not the path that was approved: a link has taken its place")
