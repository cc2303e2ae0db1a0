"""What a confined command prepares for those who open files later: swapped directories, FIFOs, hard links."""

import asyncio
import ctypes
import os
import socket
import threading
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.regular_files import open_regular, read_regular
from buddy.targets import files
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.target import Confined
from buddy.targets.local import Local
from tests.targets.inspect_files import contents, run

EXCHANGE = 2


def test_the_directory_that_is_open_is_judged_not_its_old_path(root: Path, home: Path) -> None:
    (root / "x").mkdir()
    policy = ConfinementPolicy(str(root), home=str(home), own=())
    judged: list[str] = []

    def swap(path: str) -> None:
        judged.append(path)
        if len(judged) == 1:
            (root / "x").rename(root / ".git" / "x")
        policy.check(path)

    with pytest.raises(ToolError, match="protected"):
        files.write("x/pre-commit", b"evil", str(root), swap)
    assert judged == [str(root / "x" / "pre-commit"), str(root / ".git" / "x" / "pre-commit")]
    assert contents(root) == {".git/config": b"[core]\n"}


def test_exchanging_names_in_a_loop_does_not_lead_to_a_protected_path(root: Path, home: Path) -> None:
    (root / "x").mkdir()
    (root / "y").symlink_to(".git/hooks")
    policy = ConfinementPolicy(str(root), home=str(home), own=())
    libc, is_over = ctypes.CDLL(None), threading.Event()

    def exchange() -> None:
        x, y = os.fsencode(root / "x"), os.fsencode(root / "y")
        while not is_over.is_set():
            libc.renameat2(-100, x, -100, y, EXCHANGE)

    thread = threading.Thread(target=exchange)
    thread.start()
    try:
        for _ in range(500):
            try:
                files.write("x/pre-commit", b"evil", str(root), policy.check)
            except ToolError:
                continue
    finally:
        is_over.set()
        thread.join()
    assert list((root / ".git" / "hooks").iterdir()) == []


def make_special(kind: str, path: Path) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    elif kind == "link to a terminal":
        path.symlink_to("/dev/tty")
    else:
        held = Path.cwd()
        os.chdir(path.parent)  # a socket path has at most 108 bytes
        try:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path.name)
        finally:
            os.chdir(held)


SPECIAL = ("fifo", "directory", "socket", "link to a terminal")


@pytest.mark.parametrize("kind", SPECIAL)
def test_only_regular_files_are_opened(tmp_path: Path, kind: str) -> None:
    make_special(kind, tmp_path / "x")
    for follow in (False, True):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(str(tmp_path / "x"), 10, follow=follow)


def test_a_fifo_that_takes_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    info = (tmp_path / "file").stat()
    os.mkfifo(tmp_path / "fifo")

    def stat_before(*_: object, **__: object) -> os.stat_result:
        return info

    monkeypatch.setattr(os, "stat", stat_before)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(str(tmp_path / "fifo"))


@pytest.mark.parametrize("name", ["config", "hooks", "commondir", "HEAD"])
@pytest.mark.parametrize("place", ["sub/.git", "deep/er/.git", ".git/modules/x"])
async def test_a_fifo_in_a_repository_holds_up_nothing(
    confined: Confined, root: Path, nonce: str, place: str, name: str
) -> None:
    async with asyncio.timeout(60):
        await run(confined, f"mkdir -p {place}; mkfifo {place}/{name}; echo 'gitdir: x' >{place}/gitdir", root, nonce)
        assert await run(confined, "echo on", root, nonce) == (0, "on\n")
        await confined.write_file("fine", b"good", root=str(root))


async def test_a_hard_link_is_not_read_without_a_question(tmp_path: Path) -> None:
    outside, root = tmp_path / "secret", tmp_path / "work"
    (root / "node_modules").mkdir(parents=True)
    outside.write_text("private")
    for name in ("notes.txt", "node_modules/linked"):
        os.link(outside, root / name)
    with pytest.raises(ToolError, match="hard links"):
        await Local().read_file("notes.txt", root=str(root), limit=100)
    assert await Local().read_file("node_modules/linked", root=str(root), limit=100) == b"private"
    await Local().write_file("notes.txt", b"mine", root=str(root))
    assert outside.read_text() == "private"
    assert await Local().read_file("notes.txt", root=str(root), limit=100) == b"mine"
