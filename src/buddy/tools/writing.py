"""What every tool checks before it writes a file.

Invariants: the approval shows what changes and is bound to both contents; redaction markers never overwrite what they
stand for; a file that changed since the session saw it is not overwritten.
"""

import asyncio
import hashlib
import re

from buddy.errors import ToolError
from buddy.protocol.actors import ClientActor, parse_actor
from buddy.protocol.intents import FileChange, Write
from buddy.targets.contract import Offline, Target
from buddy.targets.protected_names import IN_REPOSITORY, is_protected
from buddy.tools.changes import diff
from buddy.tools.contract import Call, Place

MAX_PRESENT = 10 * 1024 * 1024
IN_THREAD = 64 * 1024

_MARKER = re.compile(r"\[REDACTED(?:\]|:[^\]\n]{0,200}\]?)")


async def write_intent(path: str, before: bytes | None, after: bytes, place: Place) -> Write:
    """What writing `after` to a canonical path would change."""
    protected = await makes_programs_run(path, place)
    # Comparing takes a while; in a thread it does not hold up others.
    is_long = len(before or b"") + len(after) > IN_THREAD
    shown = await asyncio.to_thread(diff, path, before, after) if is_long else diff(path, before, after)
    return Write(
        title="write a protected file, which can make programs run" if protected else "write a file",
        summary=f"{path} ({len(after)} bytes{', no change: it has this content' if before == after else ''})",
        target=place.target.name,
        sandbox=place.sandbox,
        path=path,
        protected=protected,
        change=FileChange(
            size=len(after),
            sha256=hashlib.sha256(after).hexdigest(),
            replaces=None if before is None else hashlib.sha256(before).hexdigest(),
            diff=shown,
        ),
    )


def check_write(path: str, before: bytes | None, after: bytes, place: Place) -> None:
    """Refuse a write that would destroy what the model cannot know about."""
    _check_fresh(path, before, place)
    _check_markers(before, after)


async def target_of(call: Call, path: str) -> Target:
    """Where to write: confinement protects some files from commands and rules, not from a person who saw the change."""
    target = call.place.target
    is_by_person = bool(call.by) and isinstance(parse_actor(call.by), ClientActor)
    if is_by_person and isinstance(target, Offline) and await makes_programs_run(path, call.place):
        return target.outside()
    return target


def note_seen(path: str, content: bytes, place: Place) -> None:
    """Remember the content of a file by its hash, unless it is too long to be compared later."""
    if len(content) < MAX_PRESENT:
        place.seen[path] = hashlib.sha256(content).hexdigest()
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


def _check_fresh(path: str, before: bytes | None, place: Place) -> None:
    seen = place.seen.get(path)
    if before is None or seen is None or hashlib.sha256(before).hexdigest() == seen:
        return
    raise ToolError(
        f"{path} has changed since you read it, so it was not written: read it again and make your change to what is "
        "there now",
        code="STALE_FILE",
    )


def _check_markers(before: bytes | None, after: bytes) -> None:
    there = set(_MARKER.findall((before or b"").decode("utf-8", "replace")))
    for marker in _MARKER.findall(after.decode("utf-8", "replace")):
        if marker not in there:
            raise ToolError(
                f"the content has {marker!r} in it, which stands for a secret you cannot see; writing it would destroy "
                "that secret. Leave those lines as they are: change only other lines, for example with edit_file",
                code="WRITE_FAILED",
            )
