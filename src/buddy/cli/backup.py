"""`buddy backup DIR`: a copy of the state directory.

Invariants: a directory with a manifest is complete, because the manifest is written last and the directory gets its
name after that; each database is copied in one read transaction, so a running daemon may go on.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FrameType

import apsw
import msgspec
from msgspec import Struct

from buddy.cli.options import Options
from buddy.cli.settings import places_of
from buddy.cli.storage import check_state_dir, format_size, refuse_shared_log
from buddy.errors import UserError
from buddy.log.database import connect, connect_reader, direct
from buddy.log.schema import BUSY_SECONDS, explain, open_reader
from buddy.log.state_use import DAEMON_LOCK, LOCK, check_restored
from buddy.log.usage import DATABASE, missing_blobs
from buddy.terminal.phrases import plural
from buddy.version import VERSION

MANIFEST = "backup.json"
CHUNK = 1024 * 1024
LOCKS = frozenset({LOCK, DAEMON_LOCK})
# The socket, the locks, the caches and the token of this machine, and logs: a restored daemon writes its own.
LEFT_OUT = LOCKS | {"run", "logs", "confined", "confined.lock", "sandbox.json", "tmp", "web-token"}
# What a restore puts beside the state directory, or into it.
BEFORE, RESTORING = "before", "restoring"
PARTIAL = "partial"
NAMED = r"\d{8}-\d{6}-[0-9a-f]{6}"
"""How the names end that `named` gives."""
_SQLITE = b"SQLite format 3\0"


class BackedUpFile(Struct, frozen=True):
    path: str
    size: int
    sha256: str


class Manifest(Struct, frozen=True, rename="camel"):
    """`schema` is the version of the database's tables."""

    version: str
    schema: int
    created_at: int
    files: tuple[BackedUpFile, ...]


def backup(options: Options) -> int:
    refuse_shared_log(options)
    state_dir, folder = places_of(options).state_dir, Path(options.folder).absolute()
    check_state_dir(state_dir)
    check_restored(state_dir)
    if not (state_dir / DATABASE).exists():
        raise UserError(f"no sessions in {state_dir}", hint="choose another --state-dir", exit_code=1)
    if os.path.lexists(folder):
        raise UserError(f"{folder} exists already", hint="name a directory that does not exist; it is created")
    if folder.resolve().is_relative_to(state_dir.resolve()):
        raise UserError(f"{folder} is inside the state directory", hint="choose a place elsewhere")
    open_reader(state_dir / DATABASE).close()  # refuses what is damaged, or a newer Buddy's
    try:
        _remove_interrupted(folder)
        with _signals_raised():
            manifest, damaged = _build(state_dir, folder)
    except OSError as error:
        raise cannot_copy(error, folder) from error
    for path in damaged:
        print(f"warning: {path} is damaged and not in the backup", file=sys.stderr)
    if missing := missing_blobs(folder):
        what = f"{plural(missing, 'blob')} that sessions refer to; only the beginning of those texts is left"
        print(f"warning: missing in {state_dir}: {what}", file=sys.stderr)
    size = format_size(sum(file.size for file in manifest.files))
    print(f"backed up {plural(len(manifest.files), 'file')}, {size}, into {folder}", file=sys.stderr)
    print("buddy.toml and auth.json are not in it", file=sys.stderr)
    return 0


def cannot_copy(error: OSError, folder: Path) -> UserError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(f"the disk of {folder} is full", hint="free some space and try again", exit_code=75)
    place = error.filename2 or error.filename or folder
    return UserError(f"{place}: {error.strerror}", hint="check its owner and mode, or choose another place")


# --- interrupted backups ---------------------------------------------------------------------------------------------


def _remove_interrupted(folder: Path) -> None:
    """Remove what backups into the same place have left that were killed; one that is still running is locked."""
    name = re.compile(re.escape(f"{folder.name}.{PARTIAL}-") + NAMED)
    found = folder.parent.iterdir() if folder.parent.is_dir() else ()
    for left in [place for place in found if name.fullmatch(place.name) and place.is_dir() and not place.is_symlink()]:
        with _locked(left) as is_left:
            if is_left:
                shutil.rmtree(left, ignore_errors=True)
                print(f"removed {left}, left by a backup that was interrupted", file=sys.stderr)


@contextlib.contextmanager
def _locked(folder: Path) -> Generator[bool]:
    """Lock it in the block; yields False if another process has, or if the file system has no locks."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True
    finally:
        os.close(opened)


@contextlib.contextmanager
def _signals_raised() -> Generator[None]:
    """SIGTERM and SIGHUP raise SystemExit in the block, once: it cleans up. One that was ignored stays ignored."""
    numbers = [one for one in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(one) != signal.SIG_IGN]

    def end(number: int, _frame: FrameType | None) -> None:
        for one in numbers:
            signal.signal(one, signal.SIG_IGN)
        raise SystemExit(128 + number)

    previous = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


# --- making a backup -------------------------------------------------------------------------------------------------


def _build(state_dir: Path, folder: Path) -> tuple[Manifest, list[Path]]:
    """The manifest, and the databases that are damaged, which only the log must not be."""
    damaged: list[Path] = []
    new = sibling(folder, PARTIAL)
    with removed_on_error(new), contextlib.ExitStack() as locks:
        new.mkdir(mode=0o700, parents=True)
        locks.enter_context(_locked(new))
        # The log first: a blob is stored before the event that names it, so those of this copy are there.
        try:
            _copy_database(state_dir / DATABASE, new / DATABASE, clears_owners=True)
        except apsw.Error as error:
            raise explain(error, state_dir / DATABASE) from error
        for path in _files_of(state_dir):
            relative = path.relative_to(state_dir)
            if not _is_text(str(relative)):
                raise UserError(f"the name of {str(path)!a} is not UTF-8 text", hint="rename it, or move it elsewhere")
            try:
                _copy(path, new / relative)
            except FileNotFoundError:
                continue  # it was removed meanwhile
            except (apsw.NotADBError, apsw.CorruptError):
                (new / relative).unlink(missing_ok=True)
                damaged.append(path)
        files = tuple(describe(path, new) for path in sorted(new.rglob("*")) if path.is_file())
        manifest = Manifest(VERSION, _schema_of(new / DATABASE), int(time.time() * 1000), files)
        write_synced(new / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        new.rename(folder)
    sync_folder(folder.parent)
    return manifest, damaged


def _files_of(state_dir: Path) -> Iterator[Path]:
    """What a backup contains, except the log's database."""
    for place in sorted(state_dir.iterdir()):
        if place.name in LEFT_OUT or place.name.startswith((DATABASE, f"{BEFORE}-", f"{RESTORING}-")):
            continue
        for path in sorted(place.rglob("*")) if place.is_dir() and not place.is_symlink() else [place]:
            if path.is_file() and not path.is_symlink() and not path.name.endswith(("-wal", "-shm", ".lock")):
                yield path


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _copy(path: Path, copy: Path) -> None:
    make_folder(copy.parent)
    with path.open("rb") as file:
        is_database = file.read(len(_SQLITE)) == _SQLITE
    if is_database:
        _copy_database(path, copy)
        return
    shutil.copyfile(path, copy)
    copy.chmod(0o600)
    sync(copy)


def _copy_database(path: Path, copy: Path, *, clears_owners: bool = False) -> None:
    """A consistent snapshot of a database, even while others write to it; apsw's errors if it is damaged."""
    try:
        source = connect_reader(path, BUSY_SECONDS)
        try:
            source.set_progress_handler(_go_on, 10_000)
            source.execute("VACUUM INTO ?", (direct(copy),))
        finally:
            source.close()
    except apsw.FullError as error:
        if not _is_damaged(path):
            raise explain(error, copy) from error
        raise apsw.CorruptError(f"{error}, though the disk is not") from error  # of a number that is the highest
    except apsw.IOError as error:
        raise explain(error, copy) from error
    except apsw.BusyError as error:
        raise explain(error, path) from error
    copy.chmod(0o600)
    if clears_owners:  # the process that holds the original does not hold the copy
        change(copy, "UPDATE sessions SET owner = NULL; DELETE FROM owners")
    sync(copy)


def _is_damaged(path: Path) -> bool:
    try:
        source = connect_reader(path, BUSY_SECONDS)
        try:
            return source.execute("PRAGMA quick_check(1)").get != "ok"
        finally:
            source.close()
    except (apsw.NotADBError, apsw.CorruptError):
        return True


def _go_on() -> bool:
    """SQLite calls it from time to time: Python handles signals then, not only once all is copied."""
    return False


def change(path: Path, statements: str) -> None:
    try:
        db = connect(path, apsw.SQLITE_OPEN_READWRITE)
        try:
            db.execute(statements).get  # noqa: B018 - reads the result to its end
        finally:
            db.close()
    except apsw.Error as error:
        raise explain(error, path) from error


def _schema_of(path: Path) -> int:
    db = connect(path, apsw.SQLITE_OPEN_READONLY)
    try:
        return db.pragma("user_version")
    finally:
        db.close()


# --- files -----------------------------------------------------------------------------------------------------------


def sibling(path: Path, word: str) -> Path:
    return named(path.parent, f"{path.name}.{word}")


def named(folder: Path, word: str) -> Path:
    return folder / f"{word}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"


@contextlib.contextmanager
def removed_on_error(folder: Path) -> Generator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def make_folder(folder: Path) -> None:
    if not folder.exists():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def describe(path: Path, root: Path) -> BackedUpFile:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            digest.update(part)
    return BackedUpFile(str(path.relative_to(root)), path.stat().st_size, digest.hexdigest())


def write_synced(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    sync(path)


def sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
