"""The REPL without a terminal: lines in, answers out."""

from cli.driving import Home, shell


def test_every_line_is_a_prompt_and_the_answers_go_to_stdout(home: Home) -> None:
    done = home.script({"text": "**one**"}, {"text": "two\x1b[2J"}).run(stdin="first\n\nsecond\n")
    assert done.code == 0, done.err
    assert done.out == "**one**\ntwo\x1b[2J\n"
    assert "✓ done" in done.err
    assert "\x1b" not in done.err


def test_commands_work_and_nobody_is_asked(home: Home) -> None:
    done = home.script(shell("touch ran"), {"text": "Then not."}).run(
        stdin="go\n/status\n/nope\n/model\n/quit\nnever\n"
    )
    assert done.out == "Then not.\n"
    assert "denied by policy" in done.err
    assert "workspace" in done.err
    assert "✗ no command /nope" in done.err
    assert "1  played" in done.err
    assert "never" not in done.err
    assert not (home.work / "ran").exists()


def test_a_misspelt_command_is_not_a_prompt(home: Home) -> None:
    done = home.run("sesion", stdin="")
    assert done.code == 64
    assert "did you mean session?" in done.err


def test_one_run_loads_no_editor(home: Home) -> None:
    home.script({"text": "hi"})
    home.env["PYTHONPROFILEIMPORTTIME"] = "1"
    done = home.run("exec", "go")
    assert done.code == 0
    loaded = {line.rpartition("|")[2].strip() for line in done.err.splitlines() if line.startswith("import time:")}
    assert loaded
    assert not loaded & {"prompt_toolkit", "rich"}
