"""Finding files and text, with every program that is installed here."""

import os
import shutil
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.tools.contract import Call
from buddy.tools.glob import FindFiles, GlobArgs
from buddy.tools.globs import Glob
from buddy.tools.grep import Grep, GrepArgs
from buddy.tools.list_files import ListFiles, ListFilesArgs
from buddy.tools.searching import Program, Programs

Search = Callable[[GrepArgs], Awaitable[str]]


class Fixed(Programs):
    """Searches with one program, whatever else is installed."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self._program: Program = program

    async def of(self, call: Call) -> Program:  # noqa: ARG002 - the contract's
        return self._program


@pytest.fixture(params=[pytest.param("rg", marks=pytest.mark.needs("rg")), "pcre", "ere", "plain"])
def programs(request: pytest.FixtureRequest) -> Programs:
    return Fixed(request.param)


@pytest.fixture
def tree(root: Path) -> Path:
    for name, text in {
        "a.py": "import os\nvalue = 12\n",
        "sub/b.py": "value = 34\r\nother\n",
        "sub/c.txt": "Value here\n",
        "sub/deep/d.ts": "let value: number\n",
        ".github/x.yml": "value: 1\n",
        ".git/config": "value = secret\n",
        "-e": "value of a dash\n",
        "we ird;$(touch hit)'.py": "value odd\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, newline="")
    (root / "binary").write_bytes(b"value\0value\n")
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "o.py").write_text("value outside\n")
    (root / "out").symlink_to("../outside")
    (root / "out.py").symlink_to("../outside/o.py")
    return root


async def test_matches_are_reported_with_path_and_line(call: Call, tree: Path, programs: Programs) -> None:
    text = (await Grep(programs).run(GrepArgs(r"value\b.*\d+$"), call)).text
    assert sorted(text.splitlines()) == [".github/x.yml:1:value: 1", "a.py:2:value = 12"]
    assert not (tree / "hit").exists()


@pytest.mark.skipif(not Path("/proc/self/cgroup").exists(), reason="needs Linux")
@pytest.mark.usefixtures("tree")
async def test_a_search_does_not_wait_for_a_control_group(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "rg"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf './a.py\\0001:%s\\n' $(cat /proc/self/cgroup)\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    text = (await Grep(Programs()).run(GrepArgs("value"), call)).text
    assert "a.py:1:0::/" in text
    assert call.nonce not in text


@pytest.mark.needs("busybox")
@pytest.mark.usefixtures("tree")
async def test_the_programs_of_busybox_are_enough(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("cat", "env", "find", "grep", "head", "sh", "sleep", "tr", "wc"):
        (programs / name).symlink_to(str(shutil.which("busybox")))
    (programs / "bash").symlink_to(str(shutil.which("bash")))
    monkeypatch.setenv("PATH", str(programs))
    text = (await Grep(Programs()).run(GrepArgs("^value", ignore_case=True), call)).text
    odd = "we ird;$(touch hit)'.py:1:value odd"
    assert sorted(text.splitlines()) == [
        *("-e:1:value of a dash", ".github/x.yml:1:value: 1", "a.py:2:value = 12"),
        *("sub/b.py:1:value = 34", "sub/c.txt:1:Value here", odd),
    ]


@pytest.mark.needs("busybox")
async def test_a_line_break_in_a_name_leads_nowhere_with_busybox(
    call: Call, tree: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("cat", "env", "find", "grep", "head", "sh", "sleep", "tr", "wc"):
        (programs / name).symlink_to(str(shutil.which("busybox")))
    (programs / "bash").symlink_to(str(shutil.which("bash")))
    monkeypatch.setenv("PATH", str(programs))
    (tree / "away").symlink_to(tree.parent / "outside")
    decoy = tree / "x\n." / "away" / "o.py"  # read as two names, the second leads through the link
    decoy.parent.mkdir(parents=True)
    decoy.write_text("value decoy\n")
    text = (await Grep(Programs()).run(GrepArgs("value"), call)).text
    assert "a.py:2:value = 12" in text
    assert "away" not in text


async def test_a_file_with_other_names_is_left_out(call: Call, tree: Path, programs: Programs) -> None:
    os.link(tree.parent / "outside" / "o.py", tree / "hard.py")
    (tree / "node_modules").mkdir()
    os.link(tree.parent / "outside" / "o.py", tree / "node_modules" / "linked.py")
    for path in (".", "hard.py"):
        assert "hard.py:" not in (await Grep(programs).run(GrepArgs("value", path), call)).text
    assert "linked.py:1" in (await Grep(programs).run(GrepArgs("value", "node_modules"), call)).text


async def test_binary_files_links_and_git_are_left_out(call: Call, tree: Path, programs: Programs) -> None:
    text = (await Grep(programs).run(GrepArgs("value", ignore_case=True), call)).text
    paths = {line.rpartition(":")[0].rpartition(":")[0] for line in text.splitlines()}
    assert "sub/c.txt" in text and "-e" in text and "we ird;$(touch hit)'.py:1:value odd" in text
    assert not {path for path in paths if path.startswith((".git/", "out", "binary"))}
    assert not (tree / "hit").exists()


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (GrepArgs("value", glob="*.ts"), ["sub/deep/d.ts:1:let value: number"]),
        (GrepArgs("value", glob="sub/*.{py,ts}"), ["sub/b.py:1:value = 34"]),
        (GrepArgs("value", path="sub", glob="deep/**"), ["sub/deep/d.ts:1:let value: number"]),
        (GrepArgs("value", path="sub/b.py"), ["sub/b.py:1:value = 34"]),
        (GrepArgs("value", path="-e"), ["-e:1:value of a dash"]),
        (GrepArgs("--", path="sub"), ["no line matches '--' in sub"]),
        (GrepArgs("other", path="sub", context=1), ["sub/b.py-1-value = 34", "sub/b.py:2:other"]),
    ],
)
async def test_a_search_can_be_narrowed(call: Call, programs: Programs, args: GrepArgs, expected: list[str]) -> None:
    assert (await Grep(programs).run(args, call)).text.splitlines() == expected


async def test_a_search_gives_no_more_than_was_asked_for(call: Call, root: Path, programs: Programs) -> None:
    (root / "many").write_text("match me\n" * 50 + "long " * 1000 + "\n")
    text = (await Grep(programs).run(GrepArgs("match", limit=3), call)).text
    assert text.splitlines() == [
        *(f"many:{number}:match me" for number in (1, 2, 3)),
        "[more matches; narrow the pattern, the path or the glob]",
    ]
    assert len((await Grep(programs).run(GrepArgs("long"), call)).text) < 500


async def test_a_flood_is_cut_where_it_comes_from(call: Call, root: Path, programs: Programs) -> None:
    (root / "flood").write_text("match\n" * 2_000_000)
    text = (await Grep(programs).run(GrepArgs("match", limit=1000), call)).text
    assert len(text.splitlines()) == 1001


@pytest.mark.parametrize("path", ["../outside", "/etc", "out", "out.py", "~", "a\0b", "n" * 5000, "missing"])
async def test_nothing_outside_the_workspace_is_searched(call: Call, tree: Path, path: str) -> None:
    assert (tree / "out").exists()
    for attempt in (
        Grep(Programs()).run(GrepArgs("value", path=path), call),
        FindFiles(Programs()).run(GlobArgs("*", path=path), call),
        ListFiles().run(ListFilesArgs(path), call),
    ):
        with pytest.raises(ToolError):
            await attempt


async def test_a_pattern_that_cannot_be_used_is_explained(call: Call, root: Path, programs: Programs) -> None:
    (root / "file").write_text("x\n")
    for path in (".", "file"):
        with pytest.raises(ToolError, match="the search failed"):
            await Grep(programs).run(GrepArgs("(open", path=path), call)
    with pytest.raises(ToolError, match="line break"):
        await Grep(programs).run(GrepArgs("a\nb"), call)


async def test_a_pattern_made_to_hang_does_not(call: Call, root: Path) -> None:
    (root / "file").write_text("a" * 5000 + "!\n")
    try:
        await Grep(Programs()).run(GrepArgs(r"^(a+)+$"), call)
    except ToolError as error:
        assert "search failed" in str(error)


async def test_the_program_is_looked_for_once(call: Call, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of that name in the workspace, or where a relative PATH leads, is not one to run."""
    (root / "bin").mkdir()
    for name in ("rg", "bin/rg", "grep", "bin/grep"):
        (root / name).write_text("#!/bin/sh\ntouch hit\n")
        (root / name).chmod(0o755)
    monkeypatch.setenv("PATH", f".:bin::{os.environ['PATH']}")
    programs = Programs()
    first = await programs.of(call)
    assert first in ("rg", "pcre", "ere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert await programs.of(call) == first
    assert not (root / "hit").exists()


async def test_swapping_a_directory_for_a_link_leads_nowhere(call: Call, tree: Path) -> None:
    """The start of a search is swapped all the time; nothing of outside is ever shown."""
    (tree / "swap").mkdir()
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (tree / "swap").rename(tree / "real")
            (tree / "swap").symlink_to("../outside")
            (tree / "swap").unlink()
            (tree / "real").rename(tree / "swap")

    thread = threading.Thread(target=swap)
    thread.start()
    shown: list[str] = []
    try:
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            try:
                shown.append((await Grep(Fixed("pcre")).run(GrepArgs("value", path="swap"), call)).text)
                shown.append((await ListFiles().run(ListFilesArgs("swap"), call)).text)
            except ToolError:
                continue
    finally:
        stop.set()
        thread.join()
    assert not [text for text in shown if "outside" in text or "o.py" in text]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["a.py", "sub/b.py", "we ird;$(touch hit)'.py"]),
        ("sub/*", ["sub/b.py", "sub/c.txt"]),
        ("**/*.{ts,txt}", ["sub/c.txt", "sub/deep/d.ts"]),
        ("sub/**", ["sub/b.py", "sub/c.txt", "sub/deep/d.ts"]),
        ("*.yml", [".github/x.yml"]),
        ("nothing*", ["no file in . matches 'nothing*'"]),
    ],
)
@pytest.mark.usefixtures("tree")
async def test_files_are_found_by_name(call: Call, programs: Programs, pattern: str, expected: list[str]) -> None:
    assert (await FindFiles(programs).run(GlobArgs(pattern), call)).text.splitlines() == expected


@pytest.mark.usefixtures("tree")
async def test_found_paths_start_from_the_workspace(call: Call, programs: Programs) -> None:
    assert (await FindFiles(programs).run(GlobArgs("*.ts", path="sub"), call)).text == "sub/deep/d.ts"
    with pytest.raises(ToolError, match="is a file"):
        await FindFiles(programs).run(GlobArgs("*", path="a.py"), call)


async def test_a_listing_of_very_many_files_is_cut(call: Call, root: Path, programs: Programs) -> None:
    for number in range(600):
        (root / f"{number:04}").touch()
    lines = (await FindFiles(programs).run(GlobArgs("*"), call)).text.splitlines()
    assert (len(lines), lines[-1]) == (501, "[more matches; narrow the pattern or the path]")


@pytest.mark.parametrize("pattern", ["", "!x", "a\0", "x" * 1001, "/".join("*" * 60), "{a,b}" * 10])
def test_a_glob_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(ToolError):
        Glob(pattern)


def test_a_glob_made_to_hang_does_not() -> None:
    started = time.process_time()
    assert not Glob("**/" * 49 + "x").matches("a/" * 500 + "y")
    assert not Glob("*a" * 400 + "b").matches("a" * 255)
    assert time.process_time() - started < 30


@pytest.mark.needs("rg")
async def test_what_gitignore_names_is_left_out_with_ripgrep(call: Call, root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".gitignore").write_text("built/\n")
    (root / "built").mkdir()
    (root / "built" / "x.py").write_text("value\n")
    (root / "y.py").write_text("value\n")
    assert (await Grep(Programs()).run(GrepArgs("value"), call)).text == "y.py:1:value"
    assert (await FindFiles(Programs()).run(GlobArgs("*.py"), call)).text == "y.py"


async def test_a_directory_is_listed_with_sizes_and_depth(call: Call, tree: Path) -> None:
    (tree / "-e").unlink()
    assert (await ListFiles().run(ListFilesArgs("sub"), call)).text == "b.py (18 bytes)\nc.txt (11 bytes)\ndeep/"
    deep = (await ListFiles().run(ListFilesArgs("sub", depth=2), call)).text
    assert deep.splitlines()[-2:] == ["deep/", "deep/d.ts (18 bytes)"]
    everything = (await ListFiles().run(ListFilesArgs(depth=10), call)).text
    assert ".git/\n.github/" in everything and "o.py" not in everything
    assert "out (10 bytes)" in everything


async def test_a_listing_is_bounded_and_an_empty_one_says_so(call: Call, root: Path) -> None:
    assert (await ListFiles().run(ListFilesArgs(), call)).text == ". is empty"
    for number in range(5):
        (root / f"{number}").mkdir()
    lines = (await ListFiles().run(ListFilesArgs(limit=3), call)).text.splitlines()
    assert lines == ["0/", "1/", "2/", "[more entries; list a subdirectory, or give a larger limit]"]
    (root / "file").touch()
    with pytest.raises(ToolError, match="not a directory"):
        await ListFiles().run(ListFilesArgs("file"), call)
