"""Approvals in the REPL: every answer, and what never answers."""

from itertools import count

from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import Tmux

CHOICES = "1 Yes ·"


def begun(terminal: Tmux) -> None:
    terminal.wait_for("(shift-tab)")


def test_every_answer_to_an_approval(home: Home) -> None:
    home.script(*(shell(f"touch ran{number}") for number in range(5)), {"text": "over"})
    with Tmux(home, rows=60) as terminal:
        begun(terminal)
        terminal.enter("go")
        for number, keys in enumerate(("1", "2", "4", "5")):
            terminal.wait_until(lambda screen, at=number: f"touch ran{at}" in screen and CHOICES in screen)
            terminal.keys(keys)
        terminal.wait_for("What should Buddy do instead?")
        terminal.enter("use a table")
        terminal.wait_for("denied by you: use a table")
        terminal.wait_until(lambda screen: "touch ran4" in screen and CHOICES in screen)
        terminal.keys("3")
        terminal.wait_for("✓ done")
        assert "approved by you for this session" in terminal.screen()
        assert "approved by you from now on" in terminal.screen()
    assert sorted(path.name for path in home.work.iterdir()) == ["ran0", "ran1", "ran4"]
    assert "touch" in home.run("approvals", "list").out


def test_a_message_being_typed_does_not_answer_an_approval(home: Home) -> None:
    with home.script(shell("touch ran"), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.type("1 is a number")
        terminal.wait_for(CHOICES)
        assert "> 1 is a number" in terminal.screen()
        assert not (home.work / "ran").exists()
        terminal.keys("4")
        terminal.wait_for("✓ done")
        assert "> 1 is a number" in terminal.screen()


def test_a_command_longer_than_a_page_must_be_shown_before_it_is_approved(home: Home) -> None:
    command = "\n".join([*(f": line {number}" for number in range(100)), "touch ran"])
    with home.script(shell(command), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_until(lambda screen: "page 1 of " in screen and "e Next page" in screen)
        screen = ""
        for page in count(2):
            terminal.keys("1", "y", "e")
            screen = terminal.wait_for(f"page {page} of ")
            assert "│ $ : line 0" in screen
            if CHOICES in screen:
                break
        assert not (home.work / "ran").exists()
        assert "│   touch ran" in screen
        terminal.keys("1")
        terminal.wait_for("✓ done")
        assert "│   : line 50" in terminal.screen(history=True)
    assert (home.work / "ran").exists()


def test_another_size_shows_the_pages_again(home: Home) -> None:
    command = "\n".join([*(f": line {number}" for number in range(20)), "touch ran"])
    with home.script(shell(command), {"text": "over"}) and Tmux(home, rows=50) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for(CHOICES)
        terminal.resize(80, 20)
        terminal.wait_until(lambda screen: "page 1 of " in screen and CHOICES not in screen)
        terminal.keys("1")
        terminal.resize(80, 6)
        terminal.wait_for("too small")
        terminal.keys("1", "e", "2")
        assert not (home.work / "ran").exists()
        terminal.resize(80, 50)
        terminal.wait_for(CHOICES)
        terminal.keys("1")
        terminal.wait_for("✓ done")
    assert (home.work / "ran").exists()


def test_an_edit_shows_its_diff(home: Home) -> None:
    (home.work / "a.txt").write_text("one\ntwo\n")
    call = {"text": "", "calls": [{"name": "write_file", "args": {"path": "a.txt", "content": "one\n2\n"}}]}
    with home.script(call, {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        screen = terminal.wait_for("1 Yes")
        assert "│ -two" in screen.splitlines()
        assert "│ +2" in screen.splitlines()
        terminal.keys("1")
        terminal.wait_for("✓ done")
    assert (home.work / "a.txt").read_text() == "one\n2\n"


def test_shift_tab_changes_the_policy(home: Home) -> None:
    with home.script(shell("touch ran"), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.keys("BTab")
        terminal.wait_for("approvals: auto-approve everything")
        terminal.enter("go")
        terminal.wait_for("✓ done")
        terminal.keys("BTab")
        terminal.wait_for("approvals: deny everything")
        terminal.keys("BTab")
        terminal.wait_for("approvals: ask (shift-tab)")
    assert (home.work / "ran").exists()
