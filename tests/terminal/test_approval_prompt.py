"""Approvals in the REPL: every answer, and what never answers."""

import time
from itertools import count

import pytest

from buddy.terminal.lone_key import PAUSE_SECONDS
from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import Tmux

CHOICES = "1 Yes ·"


def begun(terminal: Tmux) -> None:
    terminal.wait_for("(shift-tab)")


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_message_being_typed_does_not_answer_an_approval(home: Home) -> None:
    with home.script(shell("touch ran"), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.type("1 is a number")
        terminal.wait_for(CHOICES)
        assert "> 1 is a number" in terminal.screen()
        assert not (home.work / "ran").exists()
        terminal.keys("4")
        terminal.wait_for("> 1 is a number4")
        terminal.keys("C-c")
        terminal.wait_until(lambda screen: "> 1 is a number" not in screen)
        terminal.keys("4")
        terminal.wait_for("✓ done")
    assert not (home.work / "ran").exists()


@pytest.mark.slow
def test_typing_at_an_approval_goes_to_the_input_and_decides_nothing(home: Home) -> None:
    with home.script(shell("touch ran"), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        for text in ("stop", "why do you need it", "3 more tests", "y", "t", "12", "no, wait", "e", "5th"):
            terminal.wait_for(CHOICES)
            terminal.type(text)
            terminal.wait_for(f"> {text}")
            time.sleep(2 * PAUSE_SECONDS)  # the absence of a decision has no signal
            assert terminal.screen().splitlines()[-2] == f"> {text}"
            assert "approved" not in terminal.screen()
            assert "denied" not in terminal.screen()
            terminal.keys("C-c")
            terminal.wait_until(lambda screen, text=text: f"> {text}" not in screen)
        terminal.wait_for("1 Yes ·")
        terminal.keys("4")
        terminal.wait_for("✓ done")
    assert not (home.work / "ran").exists()


def test_a_digit_after_unsent_text_or_a_paste_does_not_answer(home: Home) -> None:
    with home.script(shell("touch ran"), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for(CHOICES)
        terminal.paste("1")
        terminal.wait_for("> 1")
        time.sleep(2 * PAUSE_SECONDS)  # the absence of a decision has no signal
        terminal.keys("2")
        terminal.wait_for("> 12")
        time.sleep(2 * PAUSE_SECONDS)
        assert CHOICES in terminal.screen()
        assert not (home.work / "ran").exists()


@pytest.mark.slow
def test_a_word_and_enter_answer(home: Home) -> None:
    words = ("y", "Yes", "1", "no")
    replies = [reply for word in words for reply in (shell(f"touch ran-{word}"), {"text": f"over {word}"})]
    with home.script(*replies) and Tmux(home, rows=100) as terminal:
        begun(terminal)
        for number, word in enumerate(words, 1):
            terminal.enter("go")
            terminal.wait_until(lambda screen, word=word: f"touch ran-{word}" in screen and CHOICES in screen)
            terminal.keys(word, "Enter")
            terminal.wait_until(lambda screen, number=number: screen.count("✓ done") == number)
            decided = terminal.screen()
            assert (decided.count("approved by you"), decided.count("denied by you")) == (min(number, 3), number // 4)
            assert f"> {word}" not in decided.splitlines()
    assert sorted(path.name for path in home.work.glob("ran-*")) == ["ran-1", "ran-Yes", "ran-y"]


@pytest.mark.slow
def test_a_sentence_sent_at_an_approval_is_queued_and_the_approval_waits(home: Home) -> None:
    with home.script(shell("touch ran"), {"text": "over"}, {"text": "again"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for(CHOICES)
        terminal.enter("yes but only once")
        terminal.wait_for("queued (1): yes but only once")
        assert CHOICES in terminal.screen()
        assert not (home.work / "ran").exists()
        terminal.keys("4")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 2)
    assert not (home.work / "ran").exists()


@pytest.mark.slow
def test_a_command_longer_than_a_page_must_be_shown_before_it_is_approved(home: Home) -> None:
    command = "\n".join([*(f": line {number}" for number in range(100)), "touch ran"])
    with home.script(shell(command), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_until(lambda screen: "page 1 of " in screen and "e Next page" in screen)
        screen = ""
        for page in count(2):
            terminal.keys("1")
            terminal.wait_for("You can approve on the last page")
            terminal.keys("e")
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


@pytest.mark.slow
def test_another_size_shows_the_pages_again(home: Home) -> None:
    command = "\n".join([*(f": line {number}" for number in range(20)), "touch ran"])
    with home.script(shell(command), {"text": "over"}) and Tmux(home, rows=50) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for(CHOICES)
        terminal.resize(80, 20)
        terminal.wait_until(lambda screen: "page 1 of " in screen and CHOICES not in screen)
        terminal.keys("1")
        terminal.wait_for("You can approve on the last page")
        terminal.resize(80, 50)
        terminal.wait_for(CHOICES)
        terminal.resize(80, 6)
        terminal.wait_for("too small")
        terminal.keys("1", "e", "2")
        terminal.keys("C-c")
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


@pytest.mark.slow
def test_shift_tab_switches_plan_mode_and_loses_no_press(home: Home) -> None:
    with home.script(shell("touch ran"), {"text": "over"}, shell("touch ran"), {"text": "over"}) and Tmux(
        home, rows=40
    ) as terminal:
        begun(terminal)
        terminal.keys("BTab", "BTab", "BTab")
        terminal.wait_for("approvals: plan mode, read-only (shift-tab)")
        terminal.enter("go")
        terminal.wait_for("✓ done")
        assert not (home.work / "ran").exists()
        terminal.keys("BTab")
        terminal.wait_for("approvals: ask (shift-tab)")
        terminal.keys("BTab")
        terminal.wait_for("approvals: plan mode, read-only (shift-tab)")
        terminal.enter("/plan off")
        terminal.wait_for("approvals: ask (shift-tab)")
        terminal.enter("again")
        terminal.wait_for(CHOICES)
        terminal.enter("/plan")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 2)
        assert "denied by rule" in terminal.screen()
    assert not (home.work / "ran").exists()


@pytest.mark.slow
def test_everything_is_approved_only_by_a_confirmed_command(home: Home) -> None:
    with home.script(shell("touch ran"), {"text": "over"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for(CHOICES)
        terminal.enter("/approve all")
        terminal.wait_for("▸ 1  Yes")
        terminal.keys("Escape")
        terminal.wait_for(CHOICES)
        assert not (home.work / "ran").exists()
        terminal.enter("/approve all")
        terminal.wait_for("▸ 1  Yes")
        terminal.keys("y")
        terminal.wait_for("✓ done")
        assert "approvals: auto-approve everything (shift-tab)" in terminal.screen().splitlines()[-1]
        assert "\x1b[31m" in terminal.screen(colour=True).splitlines()[-1].replace("\x1b[1m", "").replace("1;31", "31")
        terminal.keys("BTab")
        terminal.wait_for("approvals: ask (shift-tab)")
    assert (home.work / "ran").exists()


@pytest.mark.slow
def test_always_says_that_it_covers_scripts_that_are_not_known(home: Home) -> None:
    (home.work / "task.sh").write_text(". ./$NAME\n")
    home.script(shell("bash task.sh"), {"text": "over"})
    with Tmux(home, rows=60) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_until(lambda screen: "bash task.sh" in screen and CHOICES in screen)
        assert "it may run scripts that could not be read" in terminal.screen()
        assert "the rule would also cover those scripts, as they are then" in terminal.screen()
        terminal.keys("5")


@pytest.mark.slow
def test_plan_mode_is_on_the_first_screen_and_survives_a_restart(home: Home) -> None:
    with home.script({"text": "over"}) and Tmux(home, "--plan") as terminal:
        begun(terminal)
        assert terminal.screen().count("plan mode, read-only") == 2
        terminal.enter("go")
        terminal.wait_for("✓ done")
        terminal.enter("/plan off")
        terminal.wait_for("approvals: ask (shift-tab)")
    home.run("daemon", "stop")
    with Tmux(home, "resume", "--last") as terminal:
        terminal.wait_for("✓ done")
        terminal.wait_for("approvals: ask (shift-tab)")


@pytest.mark.slow
def test_a_file_outside_the_workspace_is_asked_for_by_its_path(home: Home) -> None:
    secret = home.directory / "outside.txt"
    secret.write_text("outside")
    home.script({"text": "", "calls": [{"name": "read_file", "args": {"path": str(secret)}}]}, {"text": "over"})
    with Tmux(home, columns=140) as terminal:
        begun(terminal)
        terminal.enter("go")
        screen = terminal.wait_for(CHOICES)
        assert "┌ read a file outside the workspace" in screen
        assert f"│   {secret}\n" in screen
        assert f"$ {secret}" not in screen  # it is no command
        assert "why: this is outside the workspace" in screen
        terminal.keys("4")
        terminal.wait_for("✓ done")
