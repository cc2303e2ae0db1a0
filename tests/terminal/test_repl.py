"""The REPL as its user sees it: the real program in a real terminal."""

import msgspec
import pytest

from buddy.terminal.slash import COMMANDS
from tests.harness.home import Home
from tests.harness.scripts import shell
from tests.harness.terminal import ENDLESS, Tmux


def begun(terminal: Tmux) -> None:
    terminal.wait_for("(shift-tab)")


def test_the_first_screen_says_what_and_where(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        wanted = [
            "buddy 0.1.0 · script",
            "~/work · commands run as your user; Buddy asks first · /help",
            "",
            ">",
            "approvals: ask (shift-tab) · script · /help",
        ]
        terminal.wait_until(lambda screen: screen.splitlines() == wanted, wanted="\n".join(wanted))


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (120, 40), (40, 15)])
def test_a_run_with_an_approval_fits_any_size(home: Home, columns: int, rows: int) -> None:
    home.script(shell("echo ran > ran; echo out", "I **look**."), {"text": "All `done`."})
    with Tmux(home, columns=columns, rows=rows) as terminal:
        begun(terminal)
        terminal.enter("go on then")
        terminal.wait_for("1 Yes")
        assert not (home.work / "ran").exists()
        terminal.keys("1")
        terminal.wait_for("✓ done")
        transcript = terminal.screen(history=True)
        terminal.keys("C-d")
        terminal.wait_for("[ended 0]")
    for text in (
        "> go on then",
        "I look.",
        "│ $ echo ran > ran; echo out",
        "✓ approved by you",
        "    out",
        "All done.",
    ):
        assert text in transcript, transcript
    assert (home.work / "ran").read_text() == "ran\n"


def test_markdown_code_and_tables_are_rendered(home: Home) -> None:
    text = "# Head\n\nsome *text* <b>raw</b>\n\n- one\n- two\n\n```python\ndef f(): pass\n```\n\n[here](http://x.test/?q=1)"
    with home.script({"text": text}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        screen = terminal.wait_for("✓ done")
    for line in ("# Head", "some text <b>raw</b>", " • one", "  def f(): pass", "here (http://x.test/?q=1)"):
        assert line in screen.splitlines(), screen


def test_messages_queue_during_a_run_and_esc_interrupts_it(home: Home) -> None:
    home.script(ENDLESS)
    (home.directory / "script.json").write_bytes(
        msgspec.json.encode({"replies": [ENDLESS], "on": [{"match": "next", "replies": [{"text": "second"}]}]})
    )
    with Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("first")
        terminal.wait_for("the quick brown fox")
        terminal.enter("next please")
        terminal.wait_for("queued (1): next please")
        terminal.enter("/steer to the left")
        terminal.wait_for("next turn: to the left")
        terminal.type("half")
        terminal.wait_for("> half")
        terminal.keys("Escape")
        terminal.wait_for("■ cancelled")
        terminal.wait_until(lambda screen: screen.splitlines()[-4:-1] == ["> next please", "  to the left", "  half"])
        terminal.keys("Enter")
        terminal.wait_for("✓ done")


@pytest.mark.slow
def test_a_queued_message_is_edited_or_dropped_with_up(home: Home) -> None:
    with home.script(ENDLESS) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("first")
        terminal.wait_for("the quick brown fox")
        terminal.enter("the second")
        terminal.wait_for("queued: the second (Up to edit)")
        terminal.enter("the third")
        terminal.wait_for("queued: the third (Up to edit)")
        terminal.keys("Up")
        terminal.wait_for("> the third")
        terminal.wait_for("queued: the second (Up to edit)")
        terminal.type(" edited")
        terminal.wait_for("> the third edited")
        terminal.keys("Enter")
        terminal.wait_for("queued: the third edited (Up to edit)")
        terminal.keys("Up")
        terminal.wait_for("> the third edited")
        terminal.keys("C-c")
        terminal.wait_until(lambda screen: screen.splitlines()[-2] == ">")
        assert "queued: the third" not in terminal.screen()
        assert "queued: the second (Up to edit)" in terminal.screen()


@pytest.mark.slow
def test_only_some_commands_work_while_a_run_is_active(home: Home) -> None:
    with home.script(ENDLESS) and Tmux(home, columns=120, rows=50) as terminal:
        begun(terminal)
        terminal.enter("first")
        terminal.wait_for("Esc to interrupt")
        for command in COMMANDS:
            if not command.while_active:
                terminal.type(f"{command.name} ")
                terminal.keys("Enter")
                terminal.wait_for(f"✗ {command.name} isn't available while a run is active", history=True)
        terminal.enter("/status")
        terminal.wait_for("(running)")
        terminal.enter("/ps")
        screen = terminal.wait_for("#1  run_")
        assert "(this session)" in screen
        terminal.enter("/context")
        terminal.wait_for("tokens")
        terminal.enter("/timeout 1h")
        terminal.wait_for("Will cancel the run in 1h 00m")
        terminal.wait_for("left ·")
        terminal.enter("/approve 10m")
        terminal.wait_for("auto-approving everything for")
        terminal.enter("/kill 1")
        terminal.wait_for("■ cancelled")


@pytest.mark.slow
def test_a_timeout_cancels_the_run(home: Home) -> None:
    with home.script(ENDLESS) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("first")
        terminal.wait_for("Esc to interrupt")
        terminal.enter("/timeout 100ms")
        terminal.wait_for("Stopping (timeout")
        terminal.wait_for("■ cancelled")


@pytest.mark.slow
def test_steering_reaches_the_active_run(home: Home) -> None:
    with home.script(ENDLESS, {"text": "second"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("first")
        terminal.wait_for("Esc to interrupt")
        terminal.enter("/steer to the left")
        terminal.wait_for("Will be delivered at the next turn: to the left")


@pytest.mark.slow
def test_going_back_lists_earlier_messages(home: Home) -> None:
    with home.script({"text": "one"}, {"text": "two"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("the first")
        terminal.wait_for("✓ done")
        terminal.keys("Escape", "Escape")
        screen = terminal.wait_for("Go back to")
        assert "▸ 1  the first" in screen
        terminal.keys("Escape")
        terminal.wait_until(lambda screen: "Go back to" not in screen)


@pytest.mark.slow
def test_the_model_is_picked_with_arrows_or_a_number(home: Home) -> None:
    home.script({"text": "hi"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(
        config.read_text() + f'[models.other]\napi = "scripted"\nscript = "{home.directory}/script.json"\n'
    )
    with Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("/model")
        terminal.wait_for("▸ 1  script")
        terminal.keys("Down")
        terminal.wait_for("▸ 2  other")
        terminal.keys("Enter")
        terminal.wait_for("model: other")
        terminal.enter("/model 1")
        terminal.wait_for("model: script")
        terminal.enter("/model nope")
        terminal.wait_for("✗ unknown profile 'nope'")


@pytest.mark.slow
def test_files_and_commands_are_completed(home: Home) -> None:
    (home.work / "some-file.txt").write_text("")
    (home.work / "bad\x1b[2Jname.txt").write_text("")
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.type("/sta")
        terminal.wait_for("model, session, workspace")
        terminal.keys("Tab")
        terminal.wait_for("> /status")
        terminal.keys("C-u")
        terminal.type("see @")
        assert "name.txt" not in terminal.wait_for("some-file.txt")
        terminal.type("some")
        terminal.wait_for("> see @some\n            some-file.txt")
        terminal.keys("Tab")
        terminal.wait_for("> see @some-file.txt")


@pytest.mark.slow
def test_history_is_private_and_lasts(home: Home) -> None:
    home.script({"text": "hi"}, {"text": "hi"})
    with Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("remember me")
        terminal.wait_for("✓ done")
        terminal.keys("C-d")
        terminal.wait_for("[ended 0]")
    assert (home.state / "history").stat().st_mode & 0o777 == 0o600
    with Tmux(home) as terminal:
        begun(terminal)
        terminal.keys("Up")
        terminal.wait_for("> remember me")
        terminal.keys("Down", "C-r")
        terminal.type("memb")
        terminal.wait_for("remember me")


@pytest.mark.slow
def test_a_message_can_have_several_lines(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.type("one")
        terminal.keys("C-j")
        terminal.type("two")
        terminal.keys("M-Enter")
        terminal.type("three")
        terminal.wait_for("three")
        terminal.keys("Enter")
        screen = terminal.wait_for("✓ done")
    assert "> one\n  two\n  three" in screen


@pytest.mark.slow
def test_a_shell_command_runs_without_the_model(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("!printf 'a\\033[2Jb'; pwd; exit 3")
        screen = terminal.wait_for("\n  exit 3")
        assert "a\\x1b[2Jb" in screen
    assert home.run("session", "list").out == ""


@pytest.mark.slow
def test_a_message_is_held_until_a_shell_command_ends(home: Home) -> None:
    with home.script({"text": "answered"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("!")
        terminal.wait_for("✗ no command given")
        terminal.enter("!sleep 60")
        terminal.wait_for("Running your command; messages are held")
        terminal.enter("go")
        assert "answered" not in terminal.screen()
        terminal.keys("Escape")
        terminal.wait_for("  killed by SIGKILL")
        assert "Running your command" not in terminal.wait_for("✓ done")


@pytest.mark.slow
def test_an_external_editor_writes_the_message(home: Home) -> None:
    editor = home.directory / "editor"
    editor.write_text('#!/bin/sh\nprintf "written outside" > "$1"\n')
    editor.chmod(0o755)
    home.env["EDITOR"] = home.env["VISUAL"] = str(editor)
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.keys("C-g")
        terminal.wait_for("> written outside")


@pytest.mark.slow
def test_an_unknown_command_is_not_sent_to_the_model(home: Home) -> None:
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("/statsu")
        screen = terminal.wait_for("unknown command /statsu")
        assert "did you mean /status?" in screen


@pytest.mark.slow
def test_a_new_session_and_back_to_the_old_one(home: Home) -> None:
    with home.script({"text": "first answer"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("one")
        terminal.wait_for("✓ done")
        terminal.enter("/new")
        terminal.wait_for("A new session starts")
        terminal.enter("two")
        terminal.wait_until(lambda screen: screen.count("✓ done") == 2)
        terminal.enter("/session")
        terminal.wait_until(lambda screen: screen.count("sess_") == 2)
        terminal.enter("/export all.jsonl")
        terminal.wait_for("events to all.jsonl")
    assert (home.work / "all.jsonl").read_text().count("\n") > 3


@pytest.mark.slow
def test_a_long_output_is_only_previewed(home: Home) -> None:
    with home.script(shell("seq 100000"), {"text": "over"}) and Tmux(home, "--approve", "all") as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.type("still typing")
        terminal.wait_for("> still typing")
        terminal.wait_for("✓ done")
        assert len(terminal.screen(history=True).splitlines()) < 60


@pytest.mark.slow
def test_colour_can_be_turned_off(home: Home) -> None:
    home.env["NO_COLOR"] = "1"
    with home.script({"text": "**hi** `there`"}) and Tmux(home) as terminal:
        begun(terminal)
        terminal.enter("go")
        terminal.wait_for("✓ done")
        assert "\x1b[3" not in terminal.screen(colour=True)


@pytest.mark.slow
def test_a_prompt_on_the_command_line_is_sent_first(home: Home) -> None:
    with home.script({"text": "the answer"}) and Tmux(home, "what is it?") as terminal:
        screen = terminal.wait_for("✓ done")
        terminal.keys("Up")
        terminal.wait_until(lambda shown: shown.splitlines()[-2] == "> what is it?")
    assert "> what is it?" in screen
    assert "the answer" in screen


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[(20, 5)], [(80, 24), (30, 10), (100, 30), (20, 5)]], ids=["small", "changing"])
def test_the_scrollback_has_only_finished_text(home: Home, sizes: list[tuple[int, int]]) -> None:
    paragraphs = [" ".join(f"word{number}-{at}" for at in range(25)) for number in range(6)]
    home.script({"text": "\n\n".join(paragraphs), "delay": 0.02})
    with Tmux(home, columns=sizes[0][0], rows=sizes[0][1]) as terminal:
        terminal.wait_for("approvals:")
        terminal.enter("go")
        for number, (columns, rows) in enumerate(sizes[1:]):
            terminal.wait_for(f"word{number}-15", history=True)
            terminal.resize(columns, rows)
        terminal.wait_for("✓ done", history=True)
        terminal.wait_until(lambda screen: screen.splitlines()[-1].startswith("approvals"))
        lines = terminal.screen(history=True).splitlines()
    assert sum(line.startswith("approvals:") for line in lines) == 1
    assert [line for line in lines if line.startswith(">")] == ["> go", ">"]


@pytest.mark.slow
@pytest.mark.parametrize("ends", ["interrupted", "failed"])
def test_the_text_of_an_incomplete_reply_stays_on_the_screen(home: Home, ends: str) -> None:
    words = "the quick brown fox jumps over the lazy dog"
    home.script(ENDLESS if ends == "interrupted" else {"text": words, "error": {"message": "no more"}})
    with Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("go")
        if ends == "interrupted":
            terminal.wait_for(words)
            terminal.keys("Escape")
        screen = terminal.wait_for("■ cancelled" if ends == "interrupted" else "✗ failed")
        assert words in screen
        assert screen.index(words) < screen.index("■ Stopping" if ends == "interrupted" else "✗ no more")
        terminal.keys("C-d")
        terminal.wait_for("[ended 0]")
    with Tmux(home, "resume", "--last") as terminal:
        assert words in terminal.wait_for("■ cancelled" if ends == "interrupted" else "✗ failed")


@pytest.mark.slow
def test_a_message_that_was_redacted_can_be_sent_as_it_is(home: Home) -> None:
    home.script({"text": "first"}, {"text": "second"})
    with Tmux(home, columns=120) as terminal:
        begun(terminal)
        terminal.enter("decode q7Zp2LxV9mKc4TrB8wYd3NfH6sJg1QaE")
        terminal.wait_for("first")
        screen = terminal.wait_for("✓ done")
        assert "> decode [REDACTED:high-entropy]" in screen
        assert "! 1 part of this message looked like a secret and was redacted. /send-as-is" in screen
        terminal.enter("/send-as-is")
        terminal.wait_for("second")
        assert "> decode q7Zp2LxV9mKc4TrB8wYd3NfH6sJg1QaE" in terminal.screen(history=True)
