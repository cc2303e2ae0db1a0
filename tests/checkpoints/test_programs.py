"""Random programs of file operations are undone to the byte, and redone."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from buddy.checkpoints.contract import Ended
from buddy.checkpoints.entries import Change
from buddy.sessions.file_history import Step, combine
from tests.checkpoints.trees import Picture, make_repository, picture
from tests.checkpoints.workspace import Workspace

NAMES = ("a", "b", "c.txt", "d e", "x\ny", "\udcff", "ü")
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from([b"", b"one\n", b"two\r\n", b"\0\1", b"long\n" * 20_000])
MODES = st.sampled_from([0o644, 0o600, 0o755, 0o444])
COPY = 'mkdir -p ../copy "$0"; cp -a [abcd]* ../copy 2>/dev/null; mv ../copy "$0/copy"'
LOOPS = (
    'for n in 1 2 3; do echo "$n" >> "$0.$n"; done',
    "find . -name .git -prune -o -type f -exec sh -c 'echo line >> \"$1\"' - {} \\;",
    COPY,
    'find . -name .git -prune -o -type f -exec mv {} "$0" \\;',
    "find . -depth -name '[abd]*' -exec rm -rf {} +",
)
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, CONTENTS),
    st.tuples(st.just("append"), PATHS, CONTENTS),
    st.tuples(st.just("remove"), PATHS),
    st.tuples(st.just("link"), PATHS, PATHS),
    st.tuples(st.just("hard link"), PATHS, PATHS),
    st.tuples(st.just("directory"), PATHS),
    st.tuples(st.just("rename"), PATHS, PATHS),
    st.tuples(st.just("mode"), PATHS, MODES),
    st.tuples(st.just("directory mode"), PATHS, st.sampled_from([0o755, 0o700])),
    st.tuples(st.just("shell"), PATHS, st.sampled_from(LOOPS)),
)
PROGRAMS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=6), min_size=1, max_size=3)


def apply(root: Path, operation: tuple[object, ...]) -> None:
    """Do one operation as far as it is possible: a program that fails halfway is a program, too."""
    kind, name, *more = operation
    path = root / str(name)
    work: dict[str, Callable[[], object]] = {
        "write": lambda: _write(path, "wb", more[0]),
        "append": lambda: _write(path, "ab", more[0]),
        "remove": lambda: shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(),
        "link": lambda: path.symlink_to(str(more[0])),
        "hard link": lambda: path.hardlink_to(root / str(more[0])),
        "directory": lambda: path.mkdir(parents=True),
        "rename": lambda: path.rename(root / str(more[0])),
        "shell": lambda: _shell(root, str(more[0]), str(name)),
        "mode": lambda: path.is_file() and not path.is_symlink() and path.chmod(_number(more[0])),
        "directory mode": lambda: path.is_dir() and not path.is_symlink() and path.chmod(_number(more[0])),
    }
    try:
        work[str(kind)]()
    except (OSError, shutil.Error):
        return


def _shell(root: Path, command: str, name: str) -> None:
    subprocess.run(["sh", "-c", command, name], cwd=root, capture_output=True, check=False)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value


def _write(path: Path, mode: str, content: object) -> None:
    assert isinstance(content, bytes)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open(mode) as file:
        file.write(content)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(before=PROGRAMS, calls=PROGRAMS, has_repository=st.booleans())
@example(before=[[("write", "a", b"")]], calls=[[("mode", "a", 0o600)]], has_repository=True)
def test_a_program_is_undone_and_redone(
    before: list[list[tuple[object, ...]]], calls: list[list[tuple[object, ...]]], has_repository: bool
) -> None:
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR")))
    try:
        asyncio.run(_undo_and_redo(folder, before, calls, has_repository=has_repository))
    finally:
        shutil.rmtree(folder)


async def _undo_and_redo(
    folder: Path,
    before: list[list[tuple[object, ...]]],
    calls: list[list[tuple[object, ...]]],
    *,
    has_repository: bool,
) -> None:
    async with Workspace(folder) as workspace:
        root = workspace.root
        for operation in (operation for program in before for operation in program):
            apply(root, operation)
        if has_repository:
            make_repository(root)
        pictures, ends = [picture(root)], list[Ended]()
        for program in calls:
            ended = await workspace.call(lambda program=program: [apply(root, one) for one in program])
            ends.append(ended)
            pictures.append(picture(root))
        undone: list[list[Change]] = []
        for number in reversed(range(len(calls))):
            done, conflicts = await workspace.undo(ends[number].changes)
            assert (conflicts, picture(root)) == ([], pictures[number])
            undone.append(done)
        for number, done in enumerate(reversed(undone)):
            _, conflicts = await workspace.undo(done)
            assert (conflicts, picture(root)) == ([], pictures[number + 1])


USER = st.lists(st.tuples(st.sampled_from(["write", "append"]), PATHS), max_size=4)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(calls=PROGRAMS, edits=st.lists(USER, min_size=1, max_size=3))
@example(calls=[[("write", "a", b"")], [("rename", "a", "b")]], edits=[[("write", "a")]])
@example(calls=[[("write", "a", b"")], [("rename", "b", "a")]], edits=[[("write", "b")], [("write", "b")]])
@example(calls=[[("write", "a", b"")], [("shell", "c.txt", COPY)]], edits=[[("write", "b")], [("write", "b")]])
def test_what_the_user_wrote_in_between_is_never_lost(
    calls: list[list[tuple[object, ...]]], edits: list[list[tuple[str, str]]]
) -> None:
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR")))
    try:
        asyncio.run(_edit_and_undo(folder, calls, edits))
    finally:
        shutil.rmtree(folder)


async def _edit_and_undo(
    folder: Path, calls: list[list[tuple[object, ...]]], edits: list[list[tuple[str, str]]]
) -> None:
    """The contents that the user made and that are there before an undo of everything are there after it.

    What the user replaced does not count: only a copy that a call made can be left of it.
    """
    async with Workspace(folder) as workspace:
        root, ends, written = workspace.root, list[Ended](), set[bytes]()
        for at, program in enumerate(calls):
            ends.append(await workspace.call(lambda program=program: [apply(root, one) for one in program]))
            for number, (kind, path) in enumerate(edits[at] if at < len(edits) else ()):
                with suppress(OSError):
                    written.discard((root / path).read_bytes())
                apply(root, (kind, path, b"user %d %d\n" % (at, number)))
                with suppress(OSError):
                    written.add((root / path).read_bytes())
        before = picture(root)
        steps = [Step(ended.checkpoint, seq) for seq, ended in enumerate(ends, 1)]
        found = combine(steps, await workspace.checkpoints.changes([step.checkpoint_id for step in steps]))
        refused: dict[str, str] = dict.fromkeys(found.mixed, "as sessions do it")
        plan = await workspace.checkpoints.plan(workspace.scope(), found.changes, frozenset(), refused.get)
        await workspace.carry_out(plan)
        assert written & contents_in(before) <= contents_in(picture(root))


def contents_in(found: Picture) -> set[bytes]:
    return {entry[2] for entry in found.values() if entry[0] == "file" and isinstance(entry[2], bytes)}
