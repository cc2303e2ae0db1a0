"""Which folders are trusted, and what their own files may then do: tighten, never loosen.

What always holds: trust is bound to the folder's real path and to the content of the files it is about; a changed file
is not trusted any more; without trust such a file has no effect at all.
"""

import fcntl
import hashlib
import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from buddy.errors import UserError

HONOURED = ("buddy.toml", "agent.toml")
MAX_BYTES = 256 * 1024


class ProjectRules(Struct, frozen=True):
    """What a folder's own file asks for. `ignored` names what no project file may set."""

    rules: tuple[dict[str, Any], ...] = ()
    ignored: tuple[str, ...] = ()
    trusted: bool = True


class Trust:
    """The trusted folders, kept in the state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "trust.json"

    def set(self, root: str, *, trusted: bool) -> str:
        """Trust a folder as its files are now, or no more; give the hash the trust is bound to."""
        folder = _real(root)
        if not os.path.isdir(folder):  # noqa: PTH112
            raise UserError(f"{folder} is not a directory")
        found = hash_of(folder)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = self._read()
            if trusted:
                known[folder] = found
            else:
                known.pop(folder, None)
            fresh = self._path.with_suffix(".new")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(msgspec.json.encode(known, order="sorted").decode())
            fresh.replace(self._path)
        return found

    def is_trusted(self, root: str) -> bool:
        """Whether this folder is trusted with the files it has now."""
        folder = _real(root)
        return self._read().get(folder) == hash_of(folder)

    def project_rules(self, root: str) -> ProjectRules:
        """The rules of a folder's own file: `ask` and `deny` of a trusted one, and nothing of any other."""
        path = next((path for name in HONOURED if (path := Path(_real(root)) / name).is_file()), None)
        if path is None:
            return ProjectRules()
        if not self.is_trusted(root):
            return ProjectRules(ignored=(path.name,), trusted=False)
        return _tightening(path)

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.DecodeError):
            return {}


class _Permissions(Struct, frozen=True):
    rules: tuple[dict[str, Any], ...] = ()


def hash_of(root: str) -> str:
    """Over the names and contents of all files that would be honoured."""
    digest = hashlib.sha256()
    for name in HONOURED:
        path = Path(_real(root)) / name
        try:
            content = path.read_bytes()[: MAX_BYTES + 1] if path.is_file() else None
        except OSError:
            content = None
        digest.update(f"{name}\0{'-' if content is None else hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def _tightening(path: Path) -> ProjectRules:
    import tomllib

    try:
        document = tomllib.loads(path.read_bytes()[:MAX_BYTES].decode())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {error}", hint="mend the file, or buddy trust --revoke its folder") from error
    try:
        rules = msgspec.convert(document.get("permissions", {}), _Permissions).rules
    except msgspec.ValidationError as error:
        raise UserError(f"{path}: {error}", hint="mend the file, or buddy trust --revoke its folder") from error
    kept = tuple(rule for rule in rules if rule.get("decision") in ("ask", "deny"))
    ignored = [name for name in document if name != "permissions"]
    ignored += ["permissions rules that allow"] if len(kept) < len(rules) else []
    return ProjectRules(kept, tuple(ignored))


def _real(root: str) -> str:
    return os.path.realpath(root)
