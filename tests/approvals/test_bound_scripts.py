"""Trust in a folder covers what its hooks and MCP servers start, however they name it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from buddy.approvals.hook_files import hooks_digest
from buddy.approvals.trust import hash_of
from buddy.errors import UserError
from buddy.named_files import MAX_FILES, named_files

Write = Callable[[Path, str], None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    work = tmp_path / "repo" / "work"
    for name in ("guard.sh", "tools/guard.sh", "tools/my guard.sh", "src/pkg/server.py", "lib/index.js"):
        write(work / name, "exit 0\n")
    write(tmp_path / "repo" / "shared" / "guard.sh", "exit 0\n")
    (tmp_path / "repo" / ".git").mkdir()
    return work


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def as_hook(folder: Path, command: str) -> None:
    entry = {"hooks": [{"type": "command", "command": command}]}
    write(folder / ".claude" / "settings.json", json.dumps({"hooks": {"PreToolUse": [entry]}}))


def as_server(folder: Path, command: str) -> None:
    write(folder / ".mcp.json", json.dumps({"mcpServers": {"x": {"command": "bash", "args": ["-c", command]}}}))


COMMANDS = [
    ("./guard.sh", "guard.sh"),
    ("sh guard.sh", "guard.sh"),
    ('sh "$CLAUDE_PROJECT_DIR/guard.sh"', "guard.sh"),
    ('sh "$BUDDY_PROJECT_DIR"/guard.sh', "guard.sh"),
    ("sh ${BUDDY_PROJECT_DIR:-.}/tools/guard.sh", "tools/guard.sh"),
    ('"$(git rev-parse --show-toplevel)/shared/guard.sh"', "../shared/guard.sh"),
    ("../shared/guard.sh", "../shared/guard.sh"),
    ("true;./guard.sh", "guard.sh"),
    ("true&&tools/guard.sh|cat", "tools/guard.sh"),
    ("bash -c 'sh guard.sh; true'", "guard.sh"),
    ("bash -c \"bash -c 'sh tools/guard.sh'\"", "tools/guard.sh"),
    ("cd tools && ./guard.sh", "tools/guard.sh"),
    ("(cd tools; sh guard.sh)", "tools/guard.sh"),
    ("sh 'tools/my guard.sh'", "tools/my guard.sh"),
    ("sh tools/my\\ guard.sh", "tools/my guard.sh"),
    ("sh to'ols/gu'ard.sh", "tools/guard.sh"),
    ("env X=./guard.sh sh -c '$X'", "guard.sh"),
    ("node --require=./lib x", "lib/index.js"),
    ("node -r./lib/index.js x", "lib/index.js"),
    ("PYTHONPATH=src python3 -m pkg.server", "src/pkg/server.py"),
    ("sh <guard.sh", "guard.sh"),
    ("cat guard.sh|sh", "guard.sh"),
]


@pytest.mark.parametrize("define", [as_hook, as_server])
@pytest.mark.parametrize(("command", "script"), COMMANDS)
def test_changing_a_script_ends_trust_however_it_is_named(
    folder: Path, command: str, script: str, define: Write
) -> None:
    define(folder, command)
    before = hash_of(str(folder)), hooks_digest(folder)
    write(folder / script, "evil\n")
    after = hash_of(str(folder)), hooks_digest(folder)
    assert after[0] != before[0]
    assert (after[1] != before[1]) is (define is as_hook)


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("make check", "Makefile"),
        ("npm run serve", "package.json"),
        ("uv run serve", "pyproject.toml"),
        ("just x", "justfile"),
    ],
)
def test_a_recipe_is_part_of_what_runs(folder: Path, command: str, file: str) -> None:
    as_server(folder, command)
    before = hash_of(str(folder))
    write(folder / file, "evil")
    assert hash_of(str(folder)) != before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("more.sh", ". ./more.sh\n"),
        ("tools/more.sh", 'source "$(dirname "$0")/tools/more.sh"\n'),
        ("more.py", "#!/usr/bin/env python3\nfrom more import check\n"),
        ("deep/more.py", "#!/usr/bin/env python3\nimport deep.more\n"),
        ("lib/more.js", "const x = require('./lib/more')\n"),
        ("lib/more.mjs", 'import x from "./lib/more.mjs"\n'),
    ],
)
def test_a_script_that_a_script_loads_is_covered_too(folder: Path, name: str, text: str) -> None:
    as_hook(folder, "./guard.sh")
    write(folder / "guard.sh", text)
    write(folder / name, "one")
    before = hash_of(str(folder)), hooks_digest(folder)
    write(folder / name, "two")
    after = hash_of(str(folder)), hooks_digest(folder)
    assert before[0] != after[0] and before[1] != after[1]


def test_files_that_nothing_starts_can_change(folder: Path) -> None:
    as_hook(folder, "./guard.sh && ruff check src")
    as_server(folder, "node lib/index.js")
    before = hash_of(str(folder)), hooks_digest(folder)
    write(folder / "src" / "pkg" / "server.py", "changed")
    write(folder / "tools" / "guard.sh", "changed")
    write(folder / "README.md", "changed")
    assert (hash_of(str(folder)), hooks_digest(folder)) == before


@pytest.mark.parametrize("place", [".claude/hooks", ".agents/hooks"])
def test_everything_in_the_folders_for_scripts_is_covered_links_included(
    folder: Path, tmp_path: Path, place: str
) -> None:
    as_hook(folder, f'"$CLAUDE_PROJECT_DIR"/{place}/guard')
    write(tmp_path / "elsewhere" / "deep" / "lib.sh", "one")
    write(folder / place / "part", "one")
    (folder / place / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(folder / place)  # in a circle
    seen = {(hash_of(str(folder)), hooks_digest(folder))}
    write(folder / place / "part", "two")
    seen.add((hash_of(str(folder)), hooks_digest(folder)))
    write(tmp_path / "elsewhere" / "deep" / "lib.sh", "two")
    seen.add((hash_of(str(folder)), hooks_digest(folder)))
    assert len({one for one, _ in seen}) == len({two for _, two in seen}) == 3


@pytest.mark.parametrize("place", [".claude/skills", ".agents/commands", ".claude/agents"])
def test_linked_folders_of_skills_commands_and_agents_are_covered(folder: Path, tmp_path: Path, place: str) -> None:
    write(tmp_path / "elsewhere" / "SKILL.md", "one")
    (folder / place).mkdir(parents=True)
    (folder / place / "linked").symlink_to(tmp_path / "elsewhere")
    before = hash_of(str(folder))
    write(tmp_path / "elsewhere" / "SKILL.md", "two")
    assert hash_of(str(folder)) != before


def test_a_change_far_into_a_large_script_counts(folder: Path) -> None:
    as_hook(folder, "./guard.sh")
    write(folder / "guard.sh", "#" * 3_000_000 + "\ntrue\n")
    before = hooks_digest(folder)
    write(folder / "guard.sh", "#" * 3_000_000 + "\nevil\n")
    assert hooks_digest(folder) != before


def test_more_scripts_than_can_be_covered_are_refused(folder: Path) -> None:
    for number in range(MAX_FILES + 1):
        write(folder / "many" / f"{number}.sh", "")
    as_hook(folder, " ".join(f"many/{number}.sh" for number in range(MAX_FILES + 1)))
    with pytest.raises(UserError, match="more than 1000 files"):
        hash_of(str(folder))
    assert "more than 1000 files" in hooks_digest(folder)


def test_programs_of_the_system_are_not_covered(folder: Path) -> None:
    assert named_files(["/bin/sh -c true", "python3 -m http.server", "~/bin/x"], str(folder)) == []
