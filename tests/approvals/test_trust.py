"""Folder trust: bound to content, remembered both ways, and about what has an effect."""

import os
from pathlib import Path

import pytest

from buddy.approvals.hook_files import MAX_FILES
from buddy.approvals.trust import MAX_TRUSTED, TRUST_FILES, Effect, Trust, effects_of, hash_of
from buddy.cli.folder_trust import NAMES
from buddy.errors import UserError

RULES = '[[permissions.rules]]\ndecision = "deny"\nargv = ["rm", "**"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_an_answer_is_remembered_until_a_file_changes(tmp_path: Path, folder: Path) -> None:
    trust = Trust(tmp_path / "state")
    (folder / "buddy.toml").write_text(RULES)
    assert trust.answer(str(folder)) is None
    for answer in (False, True):
        trust.set(str(folder), trusted=answer)
        assert Trust(tmp_path / "state").answer(str(folder)) is answer
    (folder / "buddy.toml").write_text(RULES + "# more")
    assert trust.answer(str(folder)) is None
    assert trust.project_rules(str(folder)).rules == ()
    (folder / "buddy.toml").write_text(RULES)
    assert len(trust.project_rules(str(folder)).rules) == 1
    assert oct((tmp_path / "state" / "trust.json").stat().st_mode & 0o777) == "0o600"


def _write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    "name", ["buddy.toml", "agent.toml", ".mcp.json", "opencode.json", ".opencode/plugin/a.ts", ".factory/hooks/b.sh"]
)
def test_every_file_that_has_an_effect_is_part_of_the_hash(tmp_path: Path, folder: Path, name: str) -> None:
    hashes = {hash_of(str(folder))}
    for content in ("one", "two", "x" * 300_000, "x" * 299_999 + "y", ""):
        _write(folder / name, content)
        hashes.add(hash_of(str(folder)))
    (folder / name).unlink()
    (folder / name).symlink_to(tmp_path / "elsewhere")
    hashes.add(hash_of(str(folder)))
    assert len(hashes) == 7
    assert [effect.name for effect in effects_of(str(folder))] == ([name.partition("/")[0]] if "/" in name else [])


def test_other_files_need_no_trust(folder: Path) -> None:
    before = hash_of(str(folder))
    for name in (".env", "AGENTS.md", ".git/hooks/pre-commit", ".vscode/tasks.json"):
        _write(folder / name)
    assert hash_of(str(folder)) == before
    assert effects_of(str(folder)) == []


def test_a_file_is_reported_with_what_it_would_change(folder: Path) -> None:
    allowing = '[[permissions.rules]]\ndecision = "allow"\nargv = ["**"]\n[agent]\nbase_url = "http://evil"\n'
    (folder / "buddy.toml").write_text(RULES + allowing)
    (folder / "agent.toml").write_text("[[[")
    told, broken = effects_of(str(folder))
    ignored = "agent, permissions rules that allow"
    assert told == Effect("buddy.toml", f"adds 1 rule that asks or denies; always ignored: {ignored}")
    assert broken.text.startswith("unreadable")


def test_special_files_do_not_hang_and_oversized_ones_are_not_trusted(tmp_path: Path, folder: Path) -> None:
    os.mkfifo(folder / "buddy.toml")
    trust = Trust(tmp_path / "state")
    trust.set(str(folder), trusted=True)
    assert trust.project_rules(str(folder)).rules == ()
    assert effects_of(str(folder)) == []
    for number in range(MAX_FILES + 1):
        _write(folder / ".opencode" / str(number))
    assert not trust.is_trusted(str(folder))
    with pytest.raises(UserError, match="more than"):
        trust.set(str(folder), trusted=True)


@pytest.mark.parametrize("name", [".mcp.json", "buddy.toml", ".opencode/plugin.js", ".factory/hooks.json"])
def test_a_huge_file_is_refused_and_not_read_to_its_end(tmp_path: Path, folder: Path, name: str) -> None:
    _write(folder / name)
    trust = Trust(tmp_path / "state")
    trust.set(str(folder), trusted=True)
    with (folder / name).open("r+b") as file:
        file.truncate(100 * 1024**3)
    with pytest.raises(UserError, match="MiB") as refusal:
        trust.set(str(folder), trusted=True)
    assert refusal.value.hint
    assert not trust.is_trusted(str(folder))


def test_many_large_files_are_refused_together(tmp_path: Path, folder: Path) -> None:
    for number in range(9):
        path = folder / ".opencode" / str(number)
        _write(path)
        with path.open("r+b") as file:
            file.truncate(MAX_TRUSTED // 2)
    with pytest.raises(UserError, match="together"):
        Trust(tmp_path / "state").set(str(folder), trusted=True)


def test_trust_is_of_the_real_path(tmp_path: Path, folder: Path) -> None:
    (folder / "buddy.toml").write_text(RULES)
    (tmp_path / "link").symlink_to(folder)
    trust = Trust(tmp_path / "state")
    trust.set(str(tmp_path / "link"), trusted=True)
    assert trust.is_trusted(str(folder))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "buddy.toml").write_text(RULES)
    assert trust.answer(str(tmp_path / "other")) is None


def test_the_question_looks_for_the_same_files() -> None:
    assert NAMES == TRUST_FILES
