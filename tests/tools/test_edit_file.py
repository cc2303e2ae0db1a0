"""Exact edits: what they change, what they refuse, and what they say about it."""

import hashlib
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.tools.contract import Call, Place
from buddy.tools.edit_file import EditFile, EditFileArgs
from buddy.tools.nearest import nearest
from buddy.tools.read_file import ReadFile, ReadFileArgs
from buddy.tools.write_file import WriteFile, WriteFileArgs


async def test_one_text_is_replaced_and_all_else_stays_byte_for_byte(call: Call, root: Path) -> None:
    (root / "file").write_bytes(b"a\r\n\xff old \x00\nend")
    (root / "file").chmod(0o755)
    result = await EditFile().run(EditFileArgs("file", " old ", " grün "), call)
    assert result.text == "changed file in one place; it has 16 bytes now"
    assert (root / "file").read_bytes() == b"a\r\n\xff gr\xc3\xbcn \x00\nend"
    assert (root / "file").stat().st_mode & 0o777 == 0o755


async def test_an_edit_shows_its_diff_and_has_no_effect_before_it_runs(place: Place, root: Path) -> None:
    (root / "file").write_text("a\nb\nc\n")
    intent = await EditFile().intent(EditFileArgs("file", "b\n", "x\ny\n"), place)
    assert intent.kind == "write"
    assert intent.details["diff"] == f"--- {root}/file\n+++ {root}/file\n@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n"
    assert intent.details["replaces"] == hashlib.sha256(b"a\nb\nc\n").hexdigest()
    assert intent.details["sha256"] == hashlib.sha256(b"a\nx\ny\nc\n").hexdigest()
    assert (root / "file").read_text() == "a\nb\nc\n"


async def test_a_text_that_is_there_several_times_needs_more_or_all(call: Call, root: Path) -> None:
    (root / "file").write_text("x\ny\nx\nx\n")
    with pytest.raises(ToolError, match="3 times, at lines 1, 3, 4; give more") as refused:
        await EditFile().run(EditFileArgs("file", "x\n", "z\n"), call)
    assert refused.value.code == "EDIT_GUARD_BLOCKED"
    result = await EditFile().run(EditFileArgs("file", "x\n", "z\n", replace_all=True), call)
    assert result.text.startswith("changed file in 3 places")
    assert (root / "file").read_text() == "z\ny\nz\nz\n"


async def test_the_places_that_are_named_are_bounded(call: Call, root: Path) -> None:
    (root / "file").write_text("x\n" * 100_000)
    with pytest.raises(ToolError, match="100000 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …;"):
        await EditFile().run(EditFileArgs("file", "x", "z"), call)


async def test_a_text_that_is_not_there_is_answered_with_the_nearest_lines(call: Call, root: Path) -> None:
    (root / "file").write_text("import os\n\ndef main(argv):\n    print(argv)\n    return 0\n")
    with pytest.raises(ToolError) as missing:
        await EditFile().run(EditFileArgs("file", "def main(args):\n  print(args)", "x"), call)
    assert missing.value.code == "EDIT_CONTENT_NOT_FOUND"
    assert str(missing.value).endswith("The nearest is:\n3: def main(argv):\n4:     print(argv)\n5:     return 0\n6: ")


async def test_line_ends_that_differ_are_named(call: Call, root: Path) -> None:
    (root / "file").write_bytes(b"a\r\nb\r\n")
    with pytest.raises(ToolError, match=r"lines end in \\r\\n"):
        await EditFile().run(EditFileArgs("file", "a\nb", "x"), call)


def test_looking_for_the_nearest_is_bounded_whatever_the_text_is() -> None:
    assert nearest("x" * 5_000_000, "y" * 5_000_000) == ""
    assert nearest("word\n" * 300_000, "\n \n") == ""
    shown = nearest("the same line\n" * 300_000, "the same lime\n" * 300_000)
    assert len(shown.splitlines()) == 12


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("", "x", "is empty"), ("x", "x", "the same"), ("x", "[REDACTED]", "stands for a secret")],
)
async def test_edits_that_mean_nothing_or_destroy_a_secret_are_refused(
    call: Call, root: Path, old: str, new: str, message: str
) -> None:
    (root / "file").write_text("x")
    with pytest.raises(ToolError, match=message):
        await EditFile().intent(EditFileArgs("file", old, new), call.place)
    with pytest.raises(ToolError, match=message):
        await EditFile().run(EditFileArgs("file", old, new), call)
    assert (root / "file").read_text() == "x"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "~/x", "link", "x\0y", "n" * 5000, ".", "missing"])
async def test_only_files_in_the_workspace_are_edited(call: Call, root: Path, path: str) -> None:
    (root.parent / "secret").write_text("root")
    (root / "link").symlink_to("../secret")
    with pytest.raises(ToolError):
        await EditFile().intent(EditFileArgs(path, "root", "y"), call.place)
    with pytest.raises(ToolError):
        await EditFile().run(EditFileArgs(path, "root", "y"), call)
    assert (root.parent / "secret").read_text() == "root"


async def test_an_edit_of_a_file_that_makes_something_run_is_marked(place: Place, root: Path) -> None:
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "hooks" / "pre-commit").write_text("true\n")
    intent = await EditFile().intent(EditFileArgs(".git/hooks/pre-commit", "true", "false"), place)
    assert intent.details["protected"] is True


async def test_a_file_that_changed_since_it_was_read_is_not_written_over(call: Call, root: Path) -> None:
    (root / "file").write_text("one\n")
    await ReadFile().run(ReadFileArgs("file"), call)
    (root / "file").write_text("one\ntwo, by somebody else\n")
    write, edit = WriteFileArgs("file", "mine\n"), EditFileArgs("file", "one", "1")
    for attempt in (
        WriteFile().intent(write, call.place),
        WriteFile().run(write, call),
        EditFile().intent(edit, call.place),
        EditFile().run(edit, call),
    ):
        with pytest.raises(ToolError, match="read it again") as stale:
            await attempt
        assert stale.value.code == "STALE_FILE"
    assert (root / "file").read_text() == "one\ntwo, by somebody else\n"
    await ReadFile().run(ReadFileArgs("file"), call)
    await EditFile().run(EditFileArgs("file", "one", "1"), call)
    assert (root / "file").read_text() == "1\ntwo, by somebody else\n"


async def test_what_a_session_wrote_itself_it_may_write_again_by_any_name(call: Call, root: Path) -> None:
    await WriteFile().run(WriteFileArgs("file", "a\n"), call)
    (root / "link").symlink_to("file")
    await EditFile().run(EditFileArgs("link", "a", "b"), call)
    await WriteFile().run(WriteFileArgs("./file", "c\n"), call)
    (root / "file").unlink()
    await WriteFile().run(WriteFileArgs("file", "d\n"), call)
    assert (root / "file").read_text() == "d\n"


async def test_two_sessions_do_not_overwrite_each_other_unnoticed(call: Call, root: Path) -> None:
    other = Call("call_2", Place(call.place.target, call.place.root), call.nonce, call.on_output)
    (root / "file").write_text("start\n")
    for session in (call, other):
        await ReadFile().run(ReadFileArgs("file"), session)
    await WriteFile().run(WriteFileArgs("file", "first\n"), call)
    with pytest.raises(ToolError, match="changed since you read it"):
        await WriteFile().run(WriteFileArgs("file", "second\n"), other)
    assert (root / "file").read_text() == "first\n"


async def test_a_file_that_was_never_read_may_be_replaced_and_its_content_is_shown(place: Place, root: Path) -> None:
    (root / "file").write_text("unread\n")
    assert "-unread" in (await WriteFile().intent(WriteFileArgs("file", "new\n"), place)).details["diff"]
