import os
import shutil
import socket
import threading
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.targets import files
from buddy.targets.paths import locate


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "root"
    place.mkdir()
    (tmp_path / "secret").write_text("outside")
    return place


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "a/../../secret",
        "../../etc/passwd",
        "/etc/passwd",
        "/proc/1/root/etc/passwd",
        "/proc/2/exe",
        "~/x",
        "~root/x",
        "",
        "a\0b",
        "x" * 5000,
        "n" * 300,
        "d/" * 2000 + "../" * 10,
        "\ud800",
    ],
)
def test_a_path_outside_the_root_is_refused(root: Path, path: str) -> None:
    for use in (lambda: files.read(path, str(root), 10), lambda: files.write(path, b"x", str(root))):
        with pytest.raises(ToolError):
            use()
    assert list(root.iterdir()) == []
    assert (root.parent / "secret").read_text() == "outside"


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "..", "/", "a/b/../../../secret"])
def test_a_link_that_leads_outside_is_refused_for_read_write_and_stat(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    for path in ("link", "link/secret"):
        with pytest.raises(ToolError):
            files.read(path, str(root), 10)
        with pytest.raises(ToolError):
            files.write(path, b"x", str(root))
        with pytest.raises(ToolError):
            files.stat(path, str(root))
    assert (root.parent / "secret").read_text() == "outside"


def test_links_inside_the_root_are_followed_and_written_through(root: Path) -> None:
    (root / "real").mkdir()
    (root / "real" / "file").write_text("old")
    (root / "directory").symlink_to(root / "real")
    (root / "link").symlink_to("directory/../real/./file")
    files.write("link", b"new", str(root))
    assert (root / "link").is_symlink()
    assert files.read("directory/file", str(root), 10) == b"new"
    assert locate("link", str(root)) == str((root / "real" / "file").resolve())


def test_writing_to_a_dangling_link_inside_the_root_creates_its_target(root: Path) -> None:
    (root / "link").symlink_to("made/later")
    files.write("link", b"x", str(root))
    assert (root / "made" / "later").read_bytes() == b"x"


def test_a_loop_of_links_is_refused(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(ToolError, match="more than 40 links"):
        files.read("a", str(root), 10)


def test_absolute_paths_inside_the_root_work_under_any_name_of_it(root: Path) -> None:
    (root / "file").write_text("x")
    other = root.parent / "other"
    other.symlink_to(root)
    assert locate(str(root / "file"), str(root)) == str(root / "file")
    assert locate(str(other / "file"), str(other)) == str(root / "file")
    assert locate(str(other / "file"), str(root)) == str(root / "file")


def test_even_with_the_file_system_as_root_the_kernels_own_files_are_refused(root: Path) -> None:
    (root / "file").write_text("x")
    assert files.read(str(root / "file"), "/", 10) == b"x"
    for path in ("/proc/self/environ", f"/proc/{os.getpid()}/mem", "/proc/self/root/proc/self/environ", "/dev/zero"):
        with pytest.raises(ToolError):
            files.read(path, "/", 10)


def test_special_files_are_refused_at_once(root: Path) -> None:
    os.mkfifo(root / "fifo")
    (root / "zero").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    (root / "directory").mkdir()
    for name in ("fifo", "zero", "socket", "directory", "."):
        with pytest.raises(ToolError):
            files.read(name, str(root), 10)
        with pytest.raises(ToolError):
            files.write(name, b"x", str(root))


def test_a_missing_file_has_its_own_error_code(root: Path) -> None:
    for path in ("missing", "missing/deeper", "missing/../x"):
        with pytest.raises(ToolError) as caught:
            files.read(path, str(root), 10)
        assert caught.value.code == "FILE_NOT_FOUND"
    assert files.stat("missing", str(root)) is None
    assert files.stat("missing/deeper", str(root)) is None


def test_a_file_is_not_a_directory(root: Path) -> None:
    (root / "file").write_text("x")
    with pytest.raises(ToolError, match="not a directory"):
        files.read("file/inner", str(root), 10)


def test_reading_is_bounded_and_stat_returns_size_and_kind(root: Path) -> None:
    (root / "file").write_bytes(b"x" * 3_000_000)
    assert files.read("file", str(root), 2_000_000) == b"x" * 2_000_000
    info, place = files.stat("file", str(root)), files.stat(".", str(root))
    assert info is not None and (info.size, info.is_dir) == (3_000_000, False)
    assert place is not None and place.is_dir


def test_writing_keeps_the_mode_of_a_file_and_leaves_no_other_file(root: Path) -> None:
    (root / "script").write_text("old")
    (root / "script").chmod(0o750)
    files.write("script", b"new", str(root))
    files.write("a/b/fresh", b"x", str(root))
    assert (root / "script").stat().st_mode & 0o777 == 0o750
    mask = os.umask(0)
    os.umask(mask)
    assert (root / "a" / "b" / "fresh").stat().st_mode & 0o777 == 0o666 & ~mask
    assert sorted(path.name for path in root.rglob("*")) == ["a", "b", "fresh", "script"]


def test_writing_to_one_name_of_a_hard_link_leaves_the_other_alone(root: Path) -> None:
    (root / "inside").hardlink_to(root.parent / "secret")
    files.write("inside", b"changed", str(root))
    assert (root.parent / "secret").read_text() == "outside"


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(root: Path) -> None:
    (root / "file").write_text("old")
    with pytest.raises(ToolError) as caught:
        files.write("file/below", b"x", str(root))
    assert "not a directory" in str(caught.value)
    assert [path.name for path in root.iterdir()] == ["file"]


def test_no_descriptor_is_left_open(root: Path) -> None:
    (root / "link").symlink_to("/etc/passwd")
    (root / "file").write_text("x")
    before = open_descriptors()
    for path in ("link", "file", "a/../file", "missing", "file/x", "../x"):
        for use in (lambda p=path: files.read(p, str(root), 9), lambda p=path: files.stat(p, str(root))):
            try:
                use()
            except ToolError:
                continue
    assert open_descriptors() == before


def test_swapping_a_directory_and_a_link_in_a_loop_never_leads_outside(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "file").write_text("outside")
    (root / "inside").mkdir()
    (root / "inside" / "file").write_text("inside")
    (root / "link").symlink_to(outside)
    (root / "steady").mkdir()
    (root / "steady" / "file").write_text("inside")
    (root / "hop").symlink_to("steady")
    stop = threading.Event()
    swapper = threading.Thread(target=_swap, args=(root, outside, stop))
    swapper.start()
    seen: set[bytes] = set()
    try:
        for attempt in range(2000):
            seen |= _attempt(root, writes=attempt % 8 == 0)
    finally:
        stop.set()
        swapper.join()
    assert seen <= {b"inside"}
    assert (outside / "file").read_text() == "outside"
    assert [path.name for path in outside.iterdir()] == ["file"]


def _swap(root: Path, outside: Path, stop: threading.Event) -> None:
    while not stop.is_set():
        _move(root / "inside", root / "current")
        _move(root / "current", root / "inside")
        _move(root / "link", root / "current")
        _move(root / "current", root / "link")
        for target in (outside, root / "steady"):
            (root / "next").symlink_to(target)
            (root / "next").replace(root / "hop")


def _move(source: Path, destination: Path) -> None:
    while True:
        try:
            source.rename(destination)
        except OSError:
            shutil.rmtree(destination, ignore_errors=True)  # the writer created its missing parent meanwhile
        else:
            return


def _attempt(root: Path, *, writes: bool) -> set[bytes]:
    seen: set[bytes] = set()
    for path in ("current/file", "hop/file"):
        try:
            if writes:
                files.write(path, b"inside", str(root))
            seen.add(files.read(path, str(root), 100))
        except ToolError:
            continue
    return seen
