"""`auth.json`: the tokens of every provider that was logged in to.

Invariants:
- the file is replaced atomically and has mode 0600, its folder 0700: a reader sees the old tokens or the new ones;
- it is changed under a lock that all processes share, and read again once the lock is held;
- no `repr` shows a token.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from buddy.errors import UserError

VERSION = 1
LOCK_SECONDS = 30.0

_POLL = 0.02


class LoginTokens(Struct, frozen=True):
    """The tokens of an issuer. Without a refresh token the login ends when the access token expires."""

    access_token: str
    refresh_token: str
    expires_at_unix: int

    def __repr__(self) -> str:
        return f"Tokens(expires_at_unix={self.expires_at_unix})"


class _File(Struct, frozen=True):
    version: int = VERSION
    providers: dict[str, LoginTokens] = field(default_factory=dict[str, LoginTokens])


class AuthFile:
    """The tokens on disk; `provider` is an issuer's name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, provider: str) -> LoginTokens | None:
        return self._read().providers.get(provider)

    def save(self, provider: str, tokens: LoginTokens) -> None:
        """Store these tokens; the caller holds the lock."""
        held = self._read()
        self._write(replace(held, providers={**held.providers, provider: tokens}))

    def forget(self, provider: str) -> bool:
        """Remove the tokens, if there are any; the caller holds the lock."""
        held = self._read()
        left = {name: tokens for name, tokens in held.providers.items() if name != provider}
        if len(left) < len(held.providers):
            self._write(replace(held, providers=left))
        return len(left) < len(held.providers)

    @contextmanager
    def lock(self, seconds: float = LOCK_SECONDS) -> Generator[None]:
        """Hold the lock of all processes; TimeoutError if another one does not release it."""
        self._make_folder()
        lock = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _wait_for(lock, seconds)
            yield
        finally:
            os.close(lock)

    def _make_folder(self) -> None:
        folder = self.path.parent
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _read(self) -> _File:
        try:
            held = msgspec.json.decode(self.path.read_bytes(), type=_File)
        except FileNotFoundError:
            return _File()
        except OSError as error:
            raise UserError(f"can't read {self.path}: {error.strerror}") from error
        except msgspec.DecodeError as error:
            # The cause is not part of the message: the text may contain a token.
            raise UserError(
                f"{self.path} is damaged or was not written by Buddy", hint="move it away and log in again"
            ) from error
        if held.version != VERSION:
            hint = "use the Buddy that wrote it, or move it away and log in again"
            raise UserError(f"{self.path} has version {held.version}; this Buddy supports {VERSION}", hint=hint)
        return held

    def _write(self, held: _File) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with suppress(FileNotFoundError):
                temporary.unlink()  # left by a process that died and had the same pid
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(held)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
        except OSError as error:
            raise UserError(f"can't write {self.path}: {error.strerror}") from error


def _wait_for(lock: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise TimeoutError("another process holds the lock of auth.json") from None
            # A blocking flock can't be interrupted: it would keep the process from exiting.
            time.sleep(_POLL)
        else:
            return
