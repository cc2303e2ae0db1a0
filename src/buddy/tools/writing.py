"""What every tool checks before it writes a file.

Invariants: the approval shows what changes and is bound to both contents; redaction markers never overwrite what they
stand for; a file that changed since the session saw it is not overwritten.
"""

import asyncio
import hashlib
import re

from buddy.errors import ToolError
from buddy.protocol.intents import FileChange, Write
from buddy.tools.changes import diff
from buddy.tools.contract import Place

MAX_PRESENT = 10 * 1024 * 1024
IN_THREAD = 64 * 1024
# Writing here can make something run later, or change what Buddy itself may do.
PROTECTED_DIRECTORIES = frozenset(
    {".git", ".vscode", ".husky", ".idea", ".devcontainer", ".ssh", ".gnupg", ".opencode", ".factory", ".cargo"}
)
PROTECTED_NAMES = frozenset(
    {"buddy.toml", "agent.toml", ".env", ".envrc", ".mcp.json", "opencode.json", "opencode.jsonc", ".gitmodules"}
    | {".gitconfig", ".npmrc", ".yarnrc.yml", ".pypirc", ".netrc", ".pre-commit-config.yaml", "sitecustomize.py"}
    | {
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
    }
    | {".tmux.conf", ".vimrc", ".inputrc", ".pam_environment", ".xprofile"}
)
# Our own directories, in case a home directory is the workspace.
PROTECTED_PLACES = ("/.config/buddy/", "/.local/state/buddy/", "/.config/git/", "/.config/fish/", "/.config/systemd/")

_MARKER = re.compile(r"\[REDACTED(?:\]|:[^\]\n]{0,200}\]?)")


async def write_intent(path: str, before: bytes | None, after: bytes, place: Place) -> Write:
    """What writing `after` to a canonical path would change."""
    protected = is_protected(path)
    # Comparing takes a while; in a thread it does not hold up others.
    is_long = len(before or b"") + len(after) > IN_THREAD
    shown = await asyncio.to_thread(diff, path, before, after) if is_long else diff(path, before, after)
    return Write(
        title="write a protected file, which can make programs run" if protected else "write a file",
        summary=f"{path} ({len(after)} bytes)",
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


def note_seen(path: str, content: bytes, place: Place) -> None:
    """Remember the content of a file by its hash, unless it is too long to be compared later."""
    if len(content) < MAX_PRESENT:
        place.seen[path] = hashlib.sha256(content).hexdigest()
    else:
        place.seen.pop(path, None)


def is_protected(path: str) -> bool:
    """Whether a canonical path configures or runs something; case-insensitive, as some file systems are."""
    folded = path.casefold()
    names = folded.split("/")
    is_named = names[-1] in PROTECTED_NAMES or not PROTECTED_DIRECTORIES.isdisjoint(names)
    return is_named or any(place in folded for place in PROTECTED_PLACES)


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
