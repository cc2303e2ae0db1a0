"""The owner's links and logins, and where the listener was.

Invariants: a link is used at most once and is kept in memory alone; of a login only the hash is stored, and it survives
a restart; both end at their time on either clock, and their number is bounded.
"""

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy.approvals.deadlines import Deadline, Moment
from buddy.daemon.listen import Listen
from buddy.sessions.tokens import new_token, token_hash
from buddy.shared_files import replace_content

LOGIN_SECONDS = 30 * 24 * 3600.0
MAX_LOGINS = 64
MAX_LINKS = 64

log = logging.getLogger("buddy.web")


class OwnerLogin(Struct, frozen=True):
    login_hash: str
    deadline: Deadline


class Address(Struct, frozen=True):
    """Where the listener was opened on request; it is opened there again while a login may come back."""

    host: str
    port: int
    certificate: str | None
    key: str | None
    until: int

    def listen(self) -> Listen:
        certificate, key = (Path(name) if name else None for name in (self.certificate, self.key))
        return Listen(self.host, self.port, certificate, key)


class _State(Struct, frozen=True):
    logins: tuple[OwnerLogin, ...] = ()
    address: Address | None = None


class OwnerLogins:
    """`dropped` is called with the hash of a login that made room for another."""

    def __init__(self, state_dir: Path, now: Callable[[], Moment], dropped: Callable[[str], None]) -> None:
        self._path = state_dir / "web.json"
        self._now = now
        self._dropped = dropped
        self._links: dict[str, Deadline] = {}
        self._state = _read(self._path)

    # --- links ------------------------------------------------------------------------------------------------------

    def mint_link(self, seconds: float) -> tuple[str, Deadline]:
        """A token that logs the owner in, once."""
        now = self._now()
        self._links = {known: end for known, end in self._links.items() if not end.is_over(now)}
        while len(self._links) >= MAX_LINKS:
            del self._links[next(iter(self._links))]
        token, deadline = new_token(), now.after(seconds)
        self._links[token_hash(token)] = deadline
        return token, deadline

    def use_link(self, token: str) -> bool:
        """Whether this is a link that was not used before; now it is."""
        deadline = self._links.pop(token_hash(token), None)
        return deadline is not None and not deadline.is_over(self._now())

    # --- logins -----------------------------------------------------------------------------------------------------

    def log_in(self) -> str:
        """A new login: what its cookie says."""
        now, value = self._now(), new_token()
        known = [login for login in self._state.logins if not login.deadline.is_over(now)]
        for old in known[: max(0, len(known) + 1 - MAX_LOGINS)]:
            self._dropped(old.login_hash)
        login = OwnerLogin(token_hash(value), now.after(LOGIN_SECONDS))
        self._store(logins=(*known[-MAX_LOGINS + 1 :], login))
        self.expect_return(LOGIN_SECONDS)
        return value

    def find(self, value: str) -> OwnerLogin | None:
        hashed = token_hash(value)
        return next(
            (login for login in self._state.logins if login.login_hash == hashed and self.is_valid(login)), None
        )

    def is_valid(self, login: OwnerLogin) -> bool:
        return login in self._state.logins and not login.deadline.is_over(self._now())

    def log_out(self, login: OwnerLogin) -> None:
        self._store(logins=tuple(known for known in self._state.logins if known.login_hash != login.login_hash))

    def log_out_all(self) -> list[str]:
        """End every login and every link; the hashes of the logins."""
        ended = [login.login_hash for login in self._state.logins]
        self._links.clear()
        address = self._state.address
        self._store(logins=(), address=address and replace(address, until=0))
        return ended

    # --- the address ------------------------------------------------------------------------------------------------

    @property
    def last_address(self) -> Listen | None:
        return self._state.address.listen() if self._state.address else None

    @property
    def is_return_expected(self) -> bool:
        """Whether a page may try to reconnect to the last address."""
        address = self._state.address
        return address is not None and address.until > self._now().unix_ms

    def remember(self, listen: Listen) -> None:
        """The listener was opened here on request."""
        certificate, key = (str(path) if path else None for path in (listen.certificate, listen.key))
        until = self._state.address.until if self._state.address else 0
        self._store(address=Address(listen.host, listen.port, certificate, key, until))

    def expect_return(self, seconds: float) -> None:
        address = self._state.address
        until = self._now().after(seconds).unix_ms
        if address is not None and address.until < until:
            self._store(address=replace(address, until=until))

    def _store(self, **changes: object) -> None:
        self._state = replace(self._state, **changes)
        replace_content(self._path, msgspec.json.encode(self._state))


def _read(path: Path) -> _State:
    """What was stored; a file that cannot be read costs the logins, not the start."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_State)
    except FileNotFoundError:
        pass
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("%s cannot be read, so nobody is logged in: %s", path, error)
    return _State()
