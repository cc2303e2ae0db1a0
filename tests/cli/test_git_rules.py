"""Git that a rule allows, from the command line."""

from tests.harness.home import Home
from tests.harness.hostile_repository import make_canary, make_repository, set_config
from tests.harness.scripts import shell


def test_a_rule_that_allows_git_runs_nothing_of_the_repository(home: Home) -> None:
    canary = make_canary(home.directory / "canary")
    home.work.rmdir()
    make_repository(home.work)
    set_config(home.work / ".git" / "config", "core.fsmonitor", f"{canary};false")
    home.script(shell("git status --short"), {"text": "done"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    rule = '\n[[permissions.rules]]\ndecision = "allow"\nargv = ["git", "status", "--short"]\n'
    config.write_text(config.read_text() + rule)
    done = home.run("exec", "go", "--stream-json")
    assert done.code == 0
    assert "M changed.txt" in done.out
    assert "approval_required" not in done.out
    assert not (canary.parent / "ran").exists()
