"""`buddy backup DIR` and `buddy restore DIR`: a copy of the state directory, and back.

Invariants: a directory with a manifest is complete, because the manifest is written last and the directory gets its
name after that; each database is copied in one read transaction, so a running daemon may go on; nothing is restored
unless every file is what the manifest says and no other process uses the state, and what is there is only ever moved
away, never overwritten.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import apsw
import msgspec
from msgspec import Struct

from buddy.cli.options import Options
from buddy.cli.settings import places_of
from buddy.cli.storage import format_size, refuse_shared_log
from buddy.errors import UserError
from buddy.log.database import connect, direct
from buddy.log.schema import MIGRATIONS, explain, open_reader
from buddy.log.state_use import DAEMON_LOCK, LOCK, StateUse
from buddy.log.statedir import make_private_dir
from buddy.log.usage import DATABASE
from buddy.terminal.phrases import plural
from buddy.version import VERSION

MANIFEST = "backup.json"
CHUNK = 1024 * 1024
LOCKS = frozenset({LOCK, DAEMON_LOCK})
# The socket, the locks, the caches and the token of this machine, and logs: a restored daemon writes its own.
LEFT_OUT = LOCKS | {"run", "logs", "confined", "confined.lock", "sandbox.json", "tmp", "web-token"}
# By these, a directory without a log is still known as one of Buddy's.
KNOWN = LEFT_OUT | {"blobs", "checkpoints", "memory.db"}
_BEFORE, _RESTORING = "before", "restoring"
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
    if not (state_dir / DATABASE).exists():
        raise UserError(f"no sessions in {state_dir}", hint="choose another --state-dir", exit_code=1)
    if folder.exists():
        raise UserError(f"{folder} exists already", hint="name a directory that does not exist; it is created")
    if folder.is_relative_to(state_dir):
        raise UserError(f"{folder} is inside the state directory", hint="choose a place elsewhere")
    open_reader(state_dir / DATABASE).close()  # refuses what is damaged, or a newer Buddy's
    try:
        manifest, damaged = _build(state_dir, folder)
    except OSError as error:
        raise _cannot_copy(error, folder) from error
    for path in damaged:
        print(f"warning: {path} is damaged and not in the backup", file=sys.stderr)
    size = format_size(sum(file.size for file in manifest.files))
    print(f"backed up {plural(len(manifest.files), 'file')}, {size}, into {folder}", file=sys.stderr)
    return 0


def restore(options: Options) -> int:
    refuse_shared_log(options)
    state_dir, folder = places_of(options).state_dir, Path(options.folder).absolute()
    manifest = _read_manifest(folder)
    try:
        with _alone_in(state_dir):
            _check_replaceable(state_dir, replace=options.replace)
            new = _beside(state_dir, _RESTORING)
            with _removed_on_error(new):
                _copy_checked(folder, new, manifest)
                _change(new / DATABASE, "PRAGMA journal_mode = WAL")
                moved = _put_in_place(new, state_dir)
    except OSError as error:
        raise _cannot_copy(error, state_dir) from error
    if moved is not None:
        print(f"what was there is in {moved}", file=sys.stderr)
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest.created_at / 1000))
    print(f"restored {state_dir} as of {made}", file=sys.stderr)
    return 0


def _cannot_copy(error: OSError, folder: Path) -> UserError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return UserError(f"the disk of {folder} is full", hint="free some space and try again", exit_code=75)
    place = error.filename2 or error.filename or folder
    return UserError(f"{place}: {error.strerror}", hint="check its owner and mode, or choose another place")


# --- making a backup -------------------------------------------------------------------------------------------------


def _build(state_dir: Path, folder: Path) -> tuple[Manifest, list[Path]]:
    """The manifest, and the databases that are damaged, which only the log must not be."""
    damaged: list[Path] = []
    new = _sibling(folder, "partial")
    with _removed_on_error(new):
        new.mkdir(mode=0o700, parents=True)
        # The log first: a blob is stored before the event that names it, so those of this copy are there.
        try:
            _copy_database(state_dir / DATABASE, new / DATABASE, clears_owners=True)
        except apsw.Error as error:
            raise explain(error, state_dir / DATABASE) from error
        for path in _files_of(state_dir):
            relative = path.relative_to(state_dir)
            try:
                _copy(path, new / relative)
            except FileNotFoundError:
                continue  # it was removed meanwhile
            except (apsw.NotADBError, apsw.CorruptError):
                (new / relative).unlink(missing_ok=True)
                damaged.append(path)
        files = tuple(_describe(path, new) for path in sorted(new.rglob("*")) if path.is_file())
        manifest = Manifest(VERSION, _schema_of(new / DATABASE), int(time.time() * 1000), files)
        _write_synced(new / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))
        new.rename(folder)
    _sync_folder(folder.parent)
    return manifest, damaged


def _files_of(state_dir: Path) -> Iterator[Path]:
    """What a backup contains, except the log's database."""
    for place in sorted(state_dir.iterdir()):
        if place.name in LEFT_OUT or place.name.startswith((DATABASE, f"{_BEFORE}-", f"{_RESTORING}-")):
            continue
        for path in sorted(place.rglob("*")) if place.is_dir() and not place.is_symlink() else [place]:
            if path.is_file() and not path.is_symlink() and not path.name.endswith(("-wal", "-shm", ".lock")):
                yield path


def _copy(path: Path, copy: Path) -> None:
    _make_folder(copy.parent)
    with path.open("rb") as file:
        is_database = file.read(len(_SQLITE)) == _SQLITE
    if is_database:
        _copy_database(path, copy)
        return
    shutil.copyfile(path, copy)
    copy.chmod(0o600)
    _sync(copy)


def _copy_database(path: Path, copy: Path, *, clears_owners: bool = False) -> None:
    """A consistent snapshot of a database, even while others write to it; apsw's errors if it is damaged."""
    try:
        source = connect(path, apsw.SQLITE_OPEN_READONLY)
        try:
            source.set_busy_timeout(5000)
            source.execute("VACUUM INTO ?", (direct(copy),))
        finally:
            source.close()
    except (apsw.FullError, apsw.IOError) as error:
        raise explain(error, copy) from error
    except apsw.BusyError as error:
        raise explain(error, path) from error
    copy.chmod(0o600)
    if clears_owners:  # the process that holds the original does not hold the copy
        _change(copy, "UPDATE sessions SET owner = NULL; DELETE FROM owners")
    _sync(copy)


def _change(path: Path, statements: str) -> None:
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


# --- restoring -------------------------------------------------------------------------------------------------------


def _read_manifest(folder: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except FileNotFoundError:
        raise UserError(f"{folder} is not a complete backup: no {MANIFEST}", hint="buddy backup creates one") from None
    except (OSError, msgspec.DecodeError) as error:
        raise UserError(f"{folder / MANIFEST} cannot be read ({error})", hint="restore another backup") from error
    if manifest.schema > len(MIGRATIONS):
        raise UserError(
            f"{folder} was made by a newer Buddy ({manifest.version}, schema {manifest.schema}; this one knows "
            f"{len(MIGRATIONS)})",
            hint="upgrade Buddy, and try again",
        )
    return manifest


def _copy_checked(folder: Path, new: Path, manifest: Manifest) -> None:
    new.mkdir(mode=0o700, parents=True)
    for file in manifest.files:
        path = new / file.path
        if "\0" in file.path or not path.resolve().is_relative_to(new.resolve()):
            message = f"{folder / MANIFEST} names {file.path!r}, which is outside of it"
            raise UserError(message, hint="restore another backup")
        _make_folder(path.parent)
        try:
            shutil.copyfile(folder / file.path, path)
        except FileNotFoundError:
            raise UserError(f"{folder / file.path} is missing", hint="restore another backup") from None
        path.chmod(0o600)
        if _describe(path, new) != file:
            raise UserError(f"{folder / file.path} is not what was backed up", hint="restore another backup")
        _sync(path)
    if not (new / DATABASE).exists():
        raise UserError(f"{folder} is not a complete backup: no {DATABASE}", hint="restore another backup")


@contextlib.contextmanager
def _alone_in(state_dir: Path) -> Generator[None]:
    """No other process uses it meanwhile; it is created if it is missing, and removed again on an error."""
    is_new = not state_dir.exists()
    make_private_dir(state_dir)
    use = StateUse(state_dir, wait=0)
    try:
        with use.alone():
            yield
    except BaseException:
        if is_new:
            _remove_new(state_dir)
        raise
    finally:
        use.end()


def _remove_new(state_dir: Path) -> None:
    """Remove what was only just created, unless something else is in it by now."""
    if [place.name for place in state_dir.iterdir()] == [LOCK]:
        (state_dir / LOCK).unlink()
        state_dir.rmdir()


def _check_replaceable(state_dir: Path, *, replace: bool) -> None:
    names = {place.name for place in _contents(state_dir)}
    if not names:
        return
    if names.isdisjoint(KNOWN | {DATABASE}):
        raise UserError(f"{state_dir} is not empty, and not Buddy's", hint="choose another --state-dir")
    if not replace:
        what = "has sessions already" if DATABASE in names else "is not empty"
        raise UserError(f"{state_dir} {what}", hint="--replace moves them away; or choose another --state-dir")


def _put_in_place(new: Path, state_dir: Path) -> Path | None:
    """Move the restored files to their place; returns where those before are now.

    The directory itself stays, with its locks: it may be a mount point. The log goes first and comes last.
    """
    moved = None
    if old := _contents(state_dir):
        moved = _beside(state_dir, _BEFORE)
        moved.mkdir(mode=0o700)
        for place in sorted(old, key=_is_no_log):
            place.rename(moved / place.name)
    for place in sorted(new.iterdir(), key=_is_no_log, reverse=True):
        place.rename(state_dir / place.name)
    new.rmdir()
    _sync_folder(state_dir)
    _sync_folder(state_dir.parent)
    return moved


def _contents(state_dir: Path) -> list[Path]:
    """What is in it, except locks and what restoring puts there."""
    kept = (f"{_BEFORE}-", f"{_RESTORING}-")
    return [place for place in state_dir.iterdir() if place.name not in LOCKS and not place.name.startswith(kept)]


def _is_no_log(place: Path) -> bool:
    return not place.name.startswith(DATABASE)


def _beside(state_dir: Path, word: str) -> Path:
    """A new name on the same file system: next to it, or inside if something is mounted there."""
    return _named(state_dir, word) if state_dir.is_mount() else _sibling(state_dir, word)


# --- files -----------------------------------------------------------------------------------------------------------


def _sibling(path: Path, word: str) -> Path:
    return _named(path.parent, f"{path.name}.{word}")


def _named(folder: Path, word: str) -> Path:
    return folder / f"{word}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(3).hex()}"


@contextlib.contextmanager
def _removed_on_error(folder: Path) -> Generator[None]:
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        _make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _describe(path: Path, root: Path) -> BackedUpFile:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(CHUNK):
            digest.update(part)
    return BackedUpFile(str(path.relative_to(root)), path.stat().st_size, digest.hexdigest())


def _write_synced(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    _sync(path)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
