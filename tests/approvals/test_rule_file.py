"""Rules that are kept in the user's file: whatever it looks like, nothing else in it changes."""

import tomllib
from pathlib import Path

import pytest
import tomlkit

from buddy.approvals.rule_file import add_rule, remove_rules
from buddy.errors import UserError

RULE = {"decision": "allow", "tool": "run_shell", "argv": ["a b", 'c"d', "é\u202e"]}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# mine\n[permissions]\nrules = []\n",
        '[permissions]\nrules = [{decision = "deny", argv = ["rm"]}] # why\n',
        "permissions = {rules = []}\n",
        "[permissions]\nx = 1\n[agent]\nmodel = 'x'\n",
        "# c\n[[permissions.rules]] # why\ndecision = 'deny'\nargv = ['x']\n[models.a]\nmodel = 'm'\n",
        "[models.a]\nmodel = 'm'\n[[permissions.rules]]\ndecision = 'deny'\nargv = ['x'] # why",
        "[models.a]\nmodel = 'm'\n\n  [[permissions.rules]] # why\ndecision = 'deny'\nargv = [\n'x',\n]\n\n# c\n",
        '[[permissions.rules]]\ndecision = \'deny\'\nargv = [\'[[permissions.rules]]\']\n[models.a]\nmodel = """\n[[permissions.rules]]\n"""',
    ],
)
def test_a_rule_is_added_and_removed_and_all_else_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "buddy.toml"
    path.write_text(text)
    before = tomllib.loads(text).get("permissions", {}).get("rules", [])
    add_rule(path, RULE)
    assert tomllib.loads(path.read_text())["permissions"]["rules"] == [*before, RULE]
    assert all(comment in path.read_text() for comment in ("# mine", "# why", "# c") if comment in text)
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert remove_rules(path, lambda rule: rule == RULE) == 1
    assert tomllib.loads(path.read_text()).get("permissions", {}).get("rules", []) == before


def test_a_rule_is_added_to_many_without_rewriting_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parsing 10,000 rules with their comments takes five seconds."""
    path = tmp_path / "buddy.toml"
    path.write_text("# mine\n" + "[[permissions.rules]]\ndecision = 'deny' # why\n" * 50)
    monkeypatch.delattr(tomlkit, "parse")
    add_rule(path, RULE)
    rules = tomllib.loads(path.read_text())["permissions"]["rules"]
    assert rules == [*[{"decision": "deny"}] * 50, RULE]
    assert path.read_text().startswith("# mine\n[[permissions.rules]]\ndecision = 'deny' # why\n")


def test_a_rule_takes_the_place_of_those_that_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "buddy.toml"
    path.write_text("# mine\n[[permissions.rules]]\ndecision = 'deny'\n[[permissions.rules]]\ndecision = 'ask'\n")
    add_rule(path, RULE, lambda old: old["decision"] == "ask")
    assert tomllib.loads(path.read_text())["permissions"]["rules"] == [{"decision": "deny"}, RULE]
    assert path.read_text().startswith("# mine")


@pytest.mark.parametrize(
    "text", ["permissions = 3\n", "[permissions]\nrules = 3\n", "[[permissions]]\n", "[[[", "a = \ud800"]
)
def test_a_file_that_cannot_take_a_rule_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "buddy.toml"
    content = text.encode(errors="surrogatepass")
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"buddy\.toml"):
        add_rule(path, RULE)
    assert path.read_bytes() == content


def test_b10_a_planted_link_next_to_the_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".buddy.toml.new").symlink_to(victim)
    add_rule(tmp_path / "buddy.toml", RULE)
    assert victim.read_text() == "mine"
    (tmp_path / ".buddy.toml.lock").unlink()
    (tmp_path / ".buddy.toml.lock").symlink_to(victim)
    with pytest.raises(UserError, match="lock"):
        add_rule(tmp_path / "buddy.toml", RULE)
    assert victim.read_text() == "mine"


def test_a_file_that_is_kept_elsewhere_stays_there(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "buddy.toml").write_text("# kept\n")
    (tmp_path / "buddy.toml").symlink_to("dotfiles/buddy.toml")
    add_rule(tmp_path / "buddy.toml", RULE)
    assert (tmp_path / "buddy.toml").is_symlink()
    assert "# kept" in (tmp_path / "dotfiles" / "buddy.toml").read_text()
