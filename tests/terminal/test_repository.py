"""The REPL in a repository whose own git would run a canary."""

from tests.harness.home import Home
from tests.harness.hostile_repository import make_canary, make_repository, poison
from tests.harness.terminal import Tmux


def test_completion_and_diff_run_nothing_of_the_repository(home: Home) -> None:
    canary = make_canary(home.directory / "canary")
    home.work.rmdir()
    poison(make_repository(home.work), canary)
    home.script({"text": "ok"})
    with Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.type("look at @same")
        terminal.wait_for("same.txt")
        terminal.keys("Escape", "C-u")
        terminal.enter("/diff")
        screen = terminal.wait_for("+after", history=True)
        terminal.keys("C-d")
    assert "M changed.txt" in screen
    assert not (canary.parent / "ran").exists()
