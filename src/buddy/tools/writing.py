"""What every tool checks before it writes a file.

Invariants: the approval shows what changes and is bound to both contents; redaction markers never overwrite what they
stand for; a file that changed since the session saw it is not overwritten.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from buddy.capabilities import has
from buddy.errors import ToolError
from buddy.protocol.actors import ClientActor, parse_actor
from buddy.protocol.intents import FileChange, Write
from buddy.targets.contract import Offline, Target
from buddy.targets.protected_names import IN_REPOSITORY, is_protected
from buddy.tools.changes import diff
from buddy.tools.contract import Call, Place

MAX_PRESENT = 10 * 1024 * 1024
IN_THREAD = 64 * 1024

P = ParamSpec("P")
Result = TypeVar("Result")

_MARKER = re.compile(rb"\[REDACTED(?:\]|:[^\]\n]{0,200}\]?)")


async def write_intent(path: str, before: bytes | None, after: bytes, place: Place) -> Write:
    """What writing `after` to a canonical path would change."""
    protected = await makes_programs_run(path, place)
    change = await _off_loop(len(before or b"") + len(after), _compare, path, before, after)
    is_same = change.sha256 == change.replaces
    return Write(
        title="write a protected file, which can make programs run" if protected else "write a file",
        summary=f"{path} ({len(after)} bytes{', no change: it has this content' if is_same else ''})",
        target=place.target.name,
        sandbox=place.sandbox,
        path=path,
        protected=protected,
        change=change,
    )


async def check_write(path: str, before: bytes | None, after: bytes, place: Place) -> None:
    """Refuse a write that would destroy what the model cannot know about."""
    await _off_loop(len(before or b"") + len(after), _check, path, before, after, place.seen.get(path))


async def _off_loop(size: int, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Work on that many bytes: in a thread if it takes a while, so that it does not hold up others."""
    return work(*args, **kwargs) if size <= IN_THREAD else await asyncio.to_thread(work, *args, **kwargs)


async def target_of(call: Call, path: str) -> Target:
    """Where to write: confinement protects some files from commands and rules, not from a person who saw the change."""
    target = call.place.target
    is_by_person = bool(call.by) and isinstance(parse_actor(call.by), ClientActor)
    if is_by_person and has(target, Offline) and await makes_programs_run(path, call.place):
        return target.outside()
    return target


async def note_seen(path: str, content: bytes, place: Place) -> None:
    """Remember the content of a file by its hash, unless it is too long to be compared later."""
    if len(content) < MAX_PRESENT:
        place.seen[path] = await _off_loop(len(content), _hash, content)
    else:
        place.seen.pop(path, None)


async def makes_programs_run(path: str, place: Place) -> bool:
    """Whether a canonical path is protected by its name, or part of what git takes for a repository."""
    if is_protected(path, place.root):
        return True
    *names, last = path.split("/")
    for number, name in enumerate((*names, last)):
        if name.casefold() in IN_REPOSITORY and await _exists("/".join((*names[:number], "HEAD")), place):
            return True
    return False


async def _exists(path: str, place: Place) -> bool:
    try:
        return await place.target.stat(path, root=place.root) is not None
    except ToolError:
        return False


def _compare(path: str, before: bytes | None, after: bytes) -> FileChange:
    shown = diff(path, before, after)
    return FileChange(len(after), _hash(after), None if before is None else _hash(before), shown)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _check(path: str, before: bytes | None, after: bytes, seen: str | None) -> None:
    if before is not None and seen is not None and _hash(before) != seen:
        raise ToolError(
            f"{path} has changed since you read it, so it was not written: read it again and make your change to what "
            "is there now",
            code="STALE_FILE",
        )
    marker = _find_new_marker(before or b"", after)
    if marker:
        raise ToolError(
            f"the content has {marker!r} in it, which stands for a secret you cannot see; writing it would destroy "
            "that secret. Leave those lines as they are: change only other lines, for example with edit_file",
            code="WRITE_FAILED",
        )


def _find_new_marker(before: bytes, after: bytes) -> str:
    """A redaction marker that is not in the file yet. One hit after the other, so that threads get their turn."""
    there: set[bytes] | None = None
    for found in _MARKER.finditer(after):
        there = {known[0] for known in _MARKER.finditer(before)} if there is None else there
        if found[0] not in there:
            return found[0].decode("utf-8", "replace")
    return ""
