"""`buddy restore DIR`: the state directory as it was when the backup was made.

Invariants: nothing is restored unless every file is what the manifest says and no other process uses the state; what is
there is only ever moved away, never overwritten. While files are moved, the directory contains a note of it: no Buddy
opens it then, and if moving ends in the middle, everything is put back, at once or by the next `buddy restore`.
"""

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Generator
from pathlib import Path

import msgspec
from msgspec import Struct

from buddy.cli.backup import (
    BEFORE,
    LEFT_OUT,
    LOCKS,
    MANIFEST,
    RESTORING,
    Manifest,
    cannot_copy,
    change,
    describe,
    make_folder,
    named,
    removed_on_error,
    sibling,
    sync,
    sync_folder,
    write_synced,
)
from buddy.cli.options import Options
from buddy.cli.settings import places_of
from buddy.cli.storage import refuse_shared_log
from buddy.errors import UserError
from buddy.log.schema import MIGRATIONS
from buddy.log.state_use import LOCK, RESTORE_NOTE, StateUse
from buddy.log.statedir import make_private_dir
from buddy.log.usage import DATABASE

# By these, a directory without a log is still known as one of Buddy's.
KNOWN = LEFT_OUT | {"blobs", "checkpoints", "memory.db", "projects.json", "trust.json"}


class Moves(Struct, frozen=True):
    """What is being moved: `old`, the names in the state directory, to `before`; and what is in `new` into it."""

    old: tuple[str, ...]
    before: str
    new: str


def restore(options: Options) -> int:
    refuse_shared_log(options)
    state_dir, folder = places_of(options).state_dir, Path(options.folder).absolute()
    try:
        if (state_dir / RESTORE_NOTE).exists():
            _undo_interrupted(state_dir)
        manifest = _read_manifest(folder)
        if state_dir.is_dir():  # before there is a lock in it
            _check_replaceable(state_dir, replace=options.replace)
        with _alone_in(state_dir):
            _check_replaceable(state_dir, replace=options.replace)
            _remove_leftovers(state_dir)
            new = _beside(state_dir, RESTORING)
            with removed_on_error(new):
                _copy_checked(folder, new, manifest)
                change(new / DATABASE, "PRAGMA journal_mode = WAL")
                before = _put_in_place(new, state_dir)
    except OSError as error:
        raise cannot_copy(error, state_dir) from error
    if before is not None:
        print(f"what was there is in {before}", file=sys.stderr)
    made = time.strftime("%Y-%m-%d %H:%M", time.localtime(manifest.created_at / 1000))
    print(f"restored {state_dir} as of {made}", file=sys.stderr)
    return 0


def _undo_interrupted(state_dir: Path) -> None:
    with _alone_in(state_dir):
        note = state_dir / RESTORE_NOTE
        try:
            moves = msgspec.json.decode(note.read_bytes(), type=Moves)
        except msgspec.DecodeError as error:
            hint = f"what was there is in a directory {state_dir.name}.{BEFORE}-… beside it: move it back by hand"
            raise UserError(f"{note} cannot be read ({error})", hint=hint) from error
        if not Path(moves.before).is_dir():
            raise UserError(
                f"a restore of {state_dir} was interrupted, and {moves.before}, with what was there, is gone",
                hint=f"put it back; or remove {note} to go on with what is in {state_dir}",
            )
        _put_back(state_dir, moves)
        print("a restore was interrupted; what was there before is back", file=sys.stderr)


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
        make_folder(path.parent)
        try:
            shutil.copyfile(folder / file.path, path)
        except FileNotFoundError:
            raise UserError(f"{folder / file.path} is missing", hint="restore another backup") from None
        path.chmod(0o600)
        if describe(path, new) != file:
            raise UserError(f"{folder / file.path} is not what was backed up", hint="restore another backup")
        sync(path)
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

    The directory itself stays, with its locks: it may be a mount point.
    """
    old, before = _contents(state_dir), _beside(state_dir, BEFORE)
    moves = Moves(tuple(place.name for place in old), str(before), str(new))
    before.mkdir(mode=0o700)
    write_synced(before / RESTORE_NOTE, msgspec.json.encode(moves))
    (before / RESTORE_NOTE).rename(state_dir / RESTORE_NOTE)
    try:
        sync_folder(state_dir)
        for place in old:
            place.rename(before / place.name)
        for place in new.iterdir():
            place.rename(state_dir / place.name)
        for folder in (before, state_dir, state_dir.parent):
            sync_folder(folder)
    except BaseException:
        _put_back(state_dir, moves)
        raise
    (state_dir / RESTORE_NOTE).unlink()
    new.rmdir()
    if old:
        return before
    before.rmdir()
    return None


def _put_back(state_dir: Path, moves: Moves) -> None:
    """Undo the moves, however many of them were made; it may be interrupted and repeated, too."""
    before, new = Path(moves.before), Path(moves.new)
    make_folder(new)
    for place in _contents(state_dir):
        if place.name not in moves.old or os.path.lexists(before / place.name):
            place.rename(new / place.name)
    for place in before.iterdir():
        place.rename(state_dir / place.name)
    sync_folder(state_dir)
    (state_dir / RESTORE_NOTE).unlink()
    before.rmdir()
    shutil.rmtree(new, ignore_errors=True)


def _contents(state_dir: Path) -> list[Path]:
    """What is in it, except locks and what restoring puts there."""
    kept, made = LOCKS | {RESTORE_NOTE}, (f"{BEFORE}-", f"{RESTORING}-")
    return [place for place in state_dir.iterdir() if place.name not in kept and not place.name.startswith(made)]


def _remove_leftovers(state_dir: Path) -> None:
    """Remove the copies of backups that earlier restores made and could not put in place."""
    for folder, name in ((state_dir, RESTORING), (state_dir.parent, f"{state_dir.name}.{RESTORING}")):
        for left in [place for place in folder.iterdir() if place.name.startswith(f"{name}-")]:
            shutil.rmtree(left, ignore_errors=True)


def _beside(state_dir: Path, word: str) -> Path:
    """A new name on the same file system: next to it, or inside if something is mounted there."""
    return named(state_dir, word) if state_dir.is_mount() else sibling(state_dir, word)
