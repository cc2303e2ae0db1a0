"""Which processes may use a state directory at once."""

import asyncio
import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import apsw
import pytest

from buddy.cli.daemon_restart import check_migration
from buddy.errors import UserError
from buddy.log.database import connect
from buddy.log.schema import MIGRATIONS, open_database
from buddy.log.sqlite import SqliteLog
from buddy.log.state_use import DAEMON_LOCK, StateUse
from buddy.log.statedir import make_private_dir
from tests.harness.clock import ManualClock


@pytest.fixture
def old_state(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory as the Buddy before this one leaves it."""
    with monkeypatch.context() as then:
        then.setattr("buddy.log.schema.MIGRATIONS", MIGRATIONS[:-1])
        make_private_dir(state_dir)
        open_database(state_dir / "buddy.db").close()
    return state_dir


@contextmanager
def shared(state_dir: Path) -> Generator[None]:
    use = StateUse(state_dir, wait=0)
    use.share()
    yield
    use.end()


@contextmanager
def older_daemon(state_dir: Path) -> Generator[None]:
    """What a daemon holds that knows only its own lock."""
    with (state_dir / DAEMON_LOCK).open("w") as lock:
        lock.write("1\n")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def version_of(state_dir: Path) -> int:
    db = connect(state_dir / "buddy.db", apsw.SQLITE_OPEN_READWRITE)
    try:
        return db.pragma("user_version")
    finally:
        db.close()


@pytest.mark.parametrize("other", [shared, older_daemon])
async def test_a_log_is_migrated_only_when_nobody_else_uses_it(
    old_state: Path, clock: ManualClock, other: Callable[[Path], AbstractContextManager[None]]
) -> None:
    with other(old_state), pytest.raises(UserError, match="cannot be changed now") as refused:
        SqliteLog.open(old_state, clock, busy_seconds=0.1)
    assert (refused.value.exit_code, version_of(old_state)) == (75, len(MIGRATIONS) - 1)
    await SqliteLog.open(old_state, clock).close()
    assert version_of(old_state) == len(MIGRATIONS)


async def test_who_waits_to_migrate_goes_on_when_another_has_done_it(old_state: Path, clock: ManualClock) -> None:
    with shared(old_state):
        waiting = [asyncio.create_task(asyncio.to_thread(SqliteLog.open, old_state, clock)) for _ in range(2)]
        await asyncio.sleep(0.1)
    for log in await asyncio.gather(*waiting):
        await log.close()
    assert version_of(old_state) == len(MIGRATIONS)


def test_a_daemon_stays_whose_successor_could_not_migrate(old_state: Path) -> None:
    with shared(old_state):
        check_migration(old_state, daemon=os.getpid())
        with pytest.raises(UserError, match=f"which process {os.getpid()} uses"):
            check_migration(old_state, daemon=1)
    check_migration(old_state, daemon=1)


async def test_logs_of_this_version_are_open_side_by_side(state_dir: Path, clock: ManualClock) -> None:
    first, second = SqliteLog.open(state_dir, clock), SqliteLog.open(state_dir, clock)
    other = StateUse(state_dir, wait=0)
    with pytest.raises(UserError, match="another Buddy process uses"), other.alone():
        pass
    await first.close()
    await second.close()
    with other.alone():
        pass
    other.end()


def test_a_lock_that_is_a_link_is_refused(state_dir: Path, tmp_path: Path) -> None:
    make_private_dir(state_dir)
    (state_dir / "buddy.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"cannot lock .*buddy\.lock"):
        StateUse(state_dir, wait=0)
    assert not (tmp_path / "elsewhere").exists()
