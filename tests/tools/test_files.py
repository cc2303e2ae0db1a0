import hashlib
import os
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from buddy.errors import ToolError
from buddy.targets.protected_names import PROTECTED, is_protected
from buddy.tools.changes import LIMIT, diff
from buddy.tools.contract import Call, Output, Place
from buddy.tools.edit_file import EditFile, EditFileArgs
from buddy.tools.read_file import MAX_BYTES, ReadFile, ReadFileArgs
from buddy.tools.write_file import WriteFile, WriteFileArgs


async def test_a_file_is_read_as_it_is(call: Call, root: Path) -> None:
    (root / "file").write_bytes("ä\r\nb\n".encode())
    assert await ReadFile().run(ReadFileArgs("file"), call) == Output("ä\r\nb")


async def test_a_part_says_where_to_read_on_until_the_end(call: Call, root: Path) -> None:
    (root / "file").write_text("".join(f"{number}\n" for number in range(1, 6)))
    first = await ReadFile().run(ReadFileArgs("file", limit=2), call)
    assert first.text == "1\n2\n[lines 1 to 2 of 5; read on with offset=3]"
    last = await ReadFile().run(ReadFileArgs("file", offset=3), call)
    assert last.text == "3\n4\n5"


async def test_the_default_part_is_bounded_in_lines_and_bytes(call: Call, root: Path) -> None:
    (root / "lines").write_text("x\n" * 5000)
    assert (await ReadFile().run(ReadFileArgs("lines"), call)).text.endswith("of 5000; read on with offset=2001]")
    (root / "bytes").write_text(("y" * 999 + "\n") * 1000)
    text = (await ReadFile().run(ReadFileArgs("bytes"), call)).text
    assert len(text) < MAX_BYTES + 100
    assert text.endswith("[lines 1 to 262 of 1000; read on with offset=263]")


async def test_one_huge_line_is_cut_and_said_so(call: Call, root: Path) -> None:
    (root / "file").write_text("z" * 500_000 + "\nend\n")
    text = (await ReadFile().run(ReadFileArgs("file"), call)).text
    assert text.endswith("[line 1 is cut: it has 500000 bytes; read on with offset=2]")
    assert (await ReadFile().run(ReadFileArgs("file", offset=2), call)).text == "end"


async def test_an_offset_beyond_the_end_is_explained(call: Call, root: Path) -> None:
    (root / "file").write_text("1\n2\n")
    with pytest.raises(ToolError, match="has 2 lines"):
        await ReadFile().run(ReadFileArgs("file", offset=3), call)


async def test_a_file_too_large_to_count_says_so(call: Call, root: Path) -> None:
    (root / "file").write_bytes(b"line\n" * 3_000_000)
    assert "of more than 2" in (await ReadFile().run(ReadFileArgs("file"), call)).text
    with pytest.raises(ToolError, match="sed -n"):
        await ReadFile().run(ReadFileArgs("file", offset=2_900_000), call)


async def test_binary_and_empty_files_are_named_as_such(call: Call, root: Path) -> None:
    (root / "binary").write_bytes(b"\x7fELF\0\0")
    (root / "empty").touch()
    assert "is a binary file of 6 bytes" in (await ReadFile().run(ReadFileArgs("binary"), call)).text
    assert (await ReadFile().run(ReadFileArgs("empty"), call)).text == "empty is empty"


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "~/x", "fifo", "zero", "key", ".", "/proc/self/environ"])
async def test_only_files_in_the_workspace_are_read(call: Call, root: Path, path: str) -> None:
    os.mkfifo(root / "fifo")
    (root / "zero").symlink_to("/dev/zero")
    (root / "key").symlink_to("../id_rsa")
    (root.parent / "id_rsa").write_text("private")
    with pytest.raises(ToolError):
        await ReadFile().run(ReadFileArgs(path), call)
    with pytest.raises(ToolError):
        await WriteFile().run(WriteFileArgs(path, "x"), call)
    assert (root.parent / "id_rsa").read_text() == "private"


@pytest.mark.parametrize("path", ["/proc/self/environ", "proc/self/mem", "/sys/kernel/notes", "/dev/zero", "dev/tty"])
async def test_b08_the_machines_own_files_are_refused_even_where_all_is_workspace(call: Call, path: str) -> None:
    everywhere = msgspec.structs.replace(call, place=Place(call.place.target, "/"))
    for work in (
        ReadFile().run(ReadFileArgs(path), everywhere),
        WriteFile().run(WriteFileArgs(path, "x"), everywhere),
        EditFile().run(EditFileArgs(path, "a", "b"), everywhere),
    ):
        with pytest.raises(ToolError):
            await work


@pytest.mark.parametrize(
    "path",
    [
        "../../etc/passwd", "a/../../x", "/etc/passwd", "//etc/passwd", "~", "~root/x", "a\0b", "x" * 5000, "a/" * 3000,
        "", "..", "up/x", "chain/x", "loop", "\udcff", "fifo/x", "file/x", "./../root-evil/x",
        "/proc/self/root/etc/passwd",
    ],
)  # fmt: skip
async def test_b01_b03_no_spelling_of_a_path_leads_out(call: Call, root: Path, path: str) -> None:
    (root.parent / "root-evil").mkdir()
    (root.parent / "root-evil" / "x").write_text("private")
    (root / "up").symlink_to("..")
    (root / "chain").symlink_to("up/root-evil")
    (root / "loop").symlink_to("loop")
    (root / "file").write_text("x")
    os.mkfifo(root / "fifo")
    for work in (
        ReadFile().intent(ReadFileArgs(path), call.place),
        WriteFile().intent(WriteFileArgs(path, "x"), call.place),
    ):
        with pytest.raises(ToolError):
            await work
            await ReadFile().run(ReadFileArgs(path), call)
    assert (root.parent / "root-evil" / "x").read_text() == "private"


async def test_the_canonical_path_to_be_read_is_shown(place: Place, root: Path) -> None:
    (root / "file").touch()
    (root / "link").symlink_to("file")
    assert (await ReadFile().intent(ReadFileArgs("link"), place)).details["path"] == f"{root}/file"
    outside = await ReadFile().intent(ReadFileArgs("../x"), place)
    assert (outside.path, bool(outside.caution)) == (f"{root.parent}/x", True)  # a person is asked


async def test_what_was_not_approved_outside_is_not_read(call: Call, root: Path) -> None:
    (root.parent / "x").write_text("secret")
    with pytest.raises(ToolError, match="outside the workspace"):
        await ReadFile().run(ReadFileArgs("../x"), call)


async def test_a_file_is_written_completely_with_its_directories(call: Call, root: Path) -> None:
    result = await WriteFile().run(WriteFileArgs("a/b.txt", "grüße\n"), call)
    assert result == Output("wrote 8 bytes to a/b.txt")
    assert (root / "a" / "b.txt").read_text() == "grüße\n"


async def test_a_write_shows_what_it_changes_and_has_no_effect(place: Place, root: Path) -> None:
    (root / "file").write_text("a\nb\n")
    intent = await WriteFile().intent(WriteFileArgs("file", "a\nc\n"), place)
    assert intent.kind == "write"
    assert intent.details == {
        "path": f"{root}/file",
        "target": "local",
        "sandbox": "host",
        "exists": True,
        "bytes": 4,
        "sha256": hashlib.sha256(b"a\nc\n").hexdigest(),
        "replaces": hashlib.sha256(b"a\nb\n").hexdigest(),
        "diff": f"--- {root}/file\n+++ {root}/file\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
        "protected": False,
    }
    assert (root / "file").read_text() == "a\nb\n"
    fresh = await WriteFile().intent(WriteFileArgs("new/file", "x\n"), place)
    assert (fresh.details["exists"], fresh.details["replaces"]) == (False, None)
    assert not (root / "new").exists()


async def test_a_change_of_the_present_file_changes_the_intent_also_beyond_a_cut_diff(place: Place, root: Path) -> None:
    (root / "file").write_text("x\n" * 100_000)
    args = WriteFileArgs("file", "y\n" * 100_000)
    before = await WriteFile().intent(args, place)
    assert len(before.details["diff"]) == LIMIT
    assert "the diff is cut here" in before.details["diff"]
    (root / "file").write_text("x\n" * 99_999 + "z\n")
    assert (await WriteFile().intent(args, place)).details != before.details


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit",
        ".git/config",
        ".GIT/config",
        "sub/.git/hooks/x",
        ".git",
        ".vscode/tasks.json",
        "buddy.toml",
        "sub/agent.toml",
        ".env",
        "harmless",
        ".git",
        "sub/.git",
        ".GiT/HOOKS/pre-push",
        ".husky/pre-commit",
        ".idea/workspace.xml",
        ".devcontainer/devcontainer.json",
        ".envrc",
        ".bashrc",
        ".zshenv",
        ".ssh/authorized_keys",
        ".gitconfig",
        ".gitmodules",
        ".npmrc",
        ".mcp.json",
        "opencode.json",
        ".opencode/plugin/x.ts",
        ".factory/hooks/x",
        ".pre-commit-config.yaml",
        ".config/buddy/auth.json",
        ".local/state/buddy/trust.json",
        ".cargo/config.toml",
        *(".claude/settings.json", ".github/workflows/x.yml", "sub/.github/Workflows/x.yml", ".cursor/mcp.json"),
        *(
            ".agents/hooks.json",
            ".codex/config.toml",
            ".gemini/settings.json",
            "lefthook.yml",
            "Jenkinsfile",
            ".devcontainer.json",
            ".hg/hgrc",
        ),
        *(".circleci/config.yml", ".gitlab-ci.yml", ".buildkite/x", ".env", "sub/.env", "HEAD", "sub/HEAD"),
        *("bare/config", "bare/hooks/update", "bare/objects/x", "bare/refs/heads/x", "bare/commondir"),
    ],
)
async def test_files_that_make_something_run_are_marked_as_protected(place: Place, root: Path, path: str) -> None:
    (root / "harmless").symlink_to(".git/hooks/post-checkout")
    (root / "bare").mkdir()
    (root / "bare/HEAD").write_text("ref: refs/heads/main")
    intent = await WriteFile().intent(WriteFileArgs(path, "x"), place)
    assert intent.details["protected"] is True
    assert "protected" in intent.title


@pytest.mark.parametrize(
    "path",
    [
        *("src/config", "hooks/x", "tasks.json", ".github/x", "my.git/config"),
        *("components/Head/x.ts", ".env/lib/x.py", "objects/x", ".claude.md"),
    ],
)
async def test_ordinary_files_are_not_protected(place: Place, path: str) -> None:
    assert (await WriteFile().intent(WriteFileArgs(path, "x"), place)).details["protected"] is False


@pytest.mark.parametrize("name", sorted(PROTECTED))
async def test_what_is_protected_in_a_sandbox_is_protected_everywhere(place: Place, name: str) -> None:
    for path in (name, f"{name.upper()}/x", f"sub/{name}"):
        assert (await WriteFile().intent(WriteFileArgs(path, "x"), place)).protected, path


def test_a_work_tree_that_another_agent_made_is_an_ordinary_workspace() -> None:
    assert not is_protected("/h/.claude/worktrees/a/x.py", "/h/.claude/worktrees/a")
    assert is_protected("/h/.claude/worktrees/a/.claude/x", "/h/.claude/worktrees/a")
    assert is_protected("/h/.ssh/x", "/h/.ssh")


@pytest.mark.parametrize("marker", ["[REDACTED]", "[REDACTED:openai-key]", "[REDACTED:"])
async def test_our_own_redaction_marker_is_not_written_over_a_secret(call: Call, root: Path, marker: str) -> None:
    (root / ".env").write_text("KEY=sk-real\n")
    args = WriteFileArgs(".env", f"KEY={marker}\nMORE=1\n")
    with pytest.raises(ToolError, match="stands for a secret"):
        await WriteFile().intent(args, call.place)
    with pytest.raises(ToolError, match="stands for a secret"):
        await WriteFile().run(args, call)
    assert (root / ".env").read_text() == "KEY=sk-real\n"


async def test_a_marker_that_the_file_already_has_may_stay(call: Call, root: Path) -> None:
    (root / "doc").write_text("shows [REDACTED] instead\n")
    await WriteFile().run(WriteFileArgs("doc", "shows [REDACTED] there\n"), call)
    assert (root / "doc").read_text() == "shows [REDACTED] there\n"


CONTENTS = st.lists(st.sampled_from(["a", "b", "c", "", "long line"]), max_size=30).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "".join(line + "\n" for line in lines)])
)


@pytest.mark.needs("patch")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=CONTENTS, after=CONTENTS)
@example(before="a\na\na\na\na\na\na\nb", after="a\na\na\nb\na\na\na\nb")
def test_a_diff_applied_to_the_old_content_gives_the_new_one(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / "file"
    file.write_text(before)
    text = diff("file", before.encode(), after.encode())
    if before == after:
        assert text == ""
        return
    subprocess.run(["patch", "-s", "-p0", str(file)], input=text.encode(), check=True, cwd=tmp_path)
    assert (file.read_text() if file.exists() else "") == after
