"""Files on a target that only has a shell: read, replaced, listed and inspected by one sh script.

Invariants: paths are arguments and content is stdin or stdout, never script; only regular files below the root
are used; a file is replaced atomically or not at all.
"""

import os
import re
import secrets
import stat as modes

from buddy.errors import ToolError
from buddy.targets.cancellation import finish_despite_cancel
from buddy.targets.contract import Entry, FileStat
from buddy.targets.launchers import Launcher
from buddy.targets.oneshot import ask, unreachable
from buddy.targets.paths import check_text
from buddy.targets.scripts import script_argv

_STAT = re.compile(rb"([fd]) (\d+) (\d+)(?: [^\n]*?\.(\d{9}))?")
_LISTED = re.compile(rb"(\d+) ([0-9a-f]+) \./")


class ShellFiles:
    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    async def locate(self, path: str, *, root: str) -> str:
        return os.fsdecode(await self._do("locate", path, root))

    async def read(self, path: str, *, root: str, limit: int) -> bytes:
        return await self._do("read", path, root, str(max(0, limit)))

    async def write(self, path: str, content: bytes, *, root: str) -> None:
        temporary = f".buddy-{secrets.token_hex(8)}.tmp"
        # Must finish: once a call is reported as cancelled, the file must not change any more.
        await finish_despite_cancel(self._do("write", path, root, temporary, str(len(content)), stdin=content))

    async def stat(self, path: str, *, root: str) -> FileStat | None:
        try:
            answer = await self._do("stat", path, root)
        except ToolError as error:
            if error.code == "FILE_NOT_FOUND":
                return None
            raise
        found = _STAT.match(answer)
        if found is None:
            raise ToolError(f"{path!r} cannot be inspected on {self._launcher.name}: stat printed {answer[:80]!r}")
        modified = int(found[3]) * 1_000_000_000 + int(found[4] or 0)
        return FileStat(size=int(found[2]), is_dir=found[1] == b"d", modified_ns=modified)

    async def list_dir(self, path: str, *, root: str) -> list[Entry]:
        names, _, facts = (await self._do("list", path, root)).partition(b"\0\0")
        entries: list[Entry] = []
        at = 0
        for name in filter(None, names.lstrip(b"\0").split(b"\0")):
            found = _LISTED.match(facts, at)
            # An entry may disappear before it is inspected.
            if found is None or not facts.startswith(name + b"/\n", found.end()):
                continue
            at = found.end() + len(name) + 2
            is_dir = modes.S_ISDIR(int(found[2], 16))
            entries.append(Entry(name=os.fsdecode(name), is_dir=is_dir, size=int(found[1])))
        return sorted(entries, key=lambda entry: entry.name)

    async def _do(self, operation: str, path: str, root: str, *more: str, stdin: bytes = b"") -> bytes:
        check_text(path)
        answer = await ask(self._launcher, script_argv("files", operation, root, path, *more), stdin)
        word, newline, rest = answer.output.partition(b"\n")
        if not newline:
            raise unreachable(self._launcher, answer.errors or f"its shell exited with {answer.code}")
        if word == b"ok" and answer.code == 0:
            return rest
        raise _problem(word.decode("ascii", "replace"), path, root, operation, answer.errors)


def _problem(word: str, path: str, root: str, operation: str, errors: str) -> ToolError:
    code = "WRITE_FAILED" if operation == "write" else "UNKNOWN"
    match word:
        case "missing":
            return ToolError(f"{path!r} does not exist; list its directory to see what is there", code="FILE_NOT_FOUND")
        case "outside":
            return ToolError(f"{path!r} is outside the workspace {root}; only paths below it are allowed")
        case "special":
            return ToolError(f"{path!r} is not a regular file; only regular files are supported", code=code)
        case "readonly":
            return ToolError(
                f"{path!r} is read-only; leave it unchanged or ask the user to make it writable", code=code
            )
        case "notdir":
            return ToolError(f"part of {path!r} is not a directory; check the path", code=code)
        case "links":
            return ToolError(f"{path!r} follows too many links; use the file's real path", code=code)
        case "noroot":
            return ToolError(f"the workspace {root} cannot be opened there", code="SANDBOX_UNREACHABLE")
        case "short":
            return ToolError(f"{path!r} was not written: the connection was lost", code=code, retryable=True)
        case _:
            return ToolError(f"{path!r}: {errors[-300:] or 'permission denied'}", code=code)
