"""How `buddy` starts: quickly, and with a hint after a usage error."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from buddy.cli.commands import COMMANDS, build_parser, parse
from buddy.cli.completion import words_of
from buddy.errors import UserError
from buddy.version import VERSION
from tests.harness.home import Home

ROOT = Path(__file__).parents[2]
HEAVY = {"asyncio", "msgspec", "argparse", "httpx2", "apsw", "json", "typing", "pathlib"}


def test_the_version_is_printed_without_loading_anything(home: Home) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "buddy", "--version"]
    done = subprocess.run(command, env=home.env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"buddy {VERSION}\n"
    bare = [sys.executable, "-X", "importtime", "-c", "import runpy"]
    without = subprocess.run(bare, env=home.env, capture_output=True, text=True, timeout=60, check=True)
    loaded = _modules(done.stderr) - _modules(without.stderr)
    assert loaded & HEAVY == set()
    assert loaded <= {"buddy", "buddy.cli", "buddy.version", "buddy.__main__"}


def test_exec_with_a_daemon_works_on_plain_json() -> None:
    """Its start and its end do not wait for the protocol's types, nor for an event loop."""
    modules = "exec", "report", "run_follower", "parsing.runs"
    program = f"import sys, {', '.join(f'buddy.cli.{name}' for name in modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "buddy.client.view" in loaded
    assert loaded & {"asyncio", "dataclasses", "inspect", "msgspec", "pathlib", "buddy.protocol.events"} == set()


def test_the_version_is_the_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION


def test_help_shows_examples_and_no_inner_flags(home: Home) -> None:
    assert "buddy exec" in home.run("--help").out
    assert "--child" not in home.run("demo", "--help").out
    assert home.run("help").code == 0


def test_help_of_a_command_is_found_both_ways(home: Home) -> None:
    for words in (["exec"], ["session", "list"]):
        assert home.run("help", *words).out == home.run(*words, "--help").out
    assert "exit codes: 0 success" in home.run("help", "exec").out
    done = home.run("help", "nope")
    assert (done.code, done.err.splitlines()[0]) == (64, "error: unknown command 'nope'")


def test_everything_that_can_be_typed_is_explained() -> None:
    assert [word for word in words_of(build_parser()) if not word.help] == []


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("exec fix the test --json", 'quote the prompt: buddy exec "fix …"'),
        ("fix the test", 'quote the prompt: buddy "fix …"'),
        ("exec go --frobnicate", "see 'buddy exec --help'"),
        ("session list all", "see 'buddy session --help'"),
    ],
)
def test_what_was_not_understood_is_reported_with_a_hint(words: str, hint: str) -> None:
    with pytest.raises(UserError, match="unrecognized arguments") as told:
        parse(words.split())
    assert told.value.hint == hint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("exec --aprove all hi", "unknown flag --aprove; did you mean --approve?"),
        ("--aprove hi", "unknown flag --aprove; did you mean --approve?"),
        ("config", "unknown command 'config'; see 'buddy doctor', which names your configuration"),
        ("confg", "unknown command 'confg'; see 'buddy doctor', which names your configuration"),
        ("upgrade", "unknown command 'upgrade'"),
        ("plugin add x", "unknown command 'plugin'"),
        ("update --json", "unknown command 'update'"),
        ("self-update now", "unrecognized arguments: now"),
        ("modle", "unknown command 'modle'; did you mean model?"),
        ("session list --js", "unknown flag --js; did you mean --json?"),
        ("session list --jsn", "unknown flag --jsn; did you mean --json?"),
        ("exec --max-turns zero hi", "argument --max-turns: 'zero' is not a whole number"),
        ("exec --max-cost nan hi", "argument --max-cost: 'nan' is not a number"),
        ("exec --max-cost inf hi", "argument --max-cost: 'inf' is not a number"),
        ("replay last --speed fast", "argument --speed: 'fast' is not a number"),
        ("completion tcsh", "argument bash|zsh|fish: unknown shell 'tcsh'. Available: bash, zsh, fish"),
    ],
)
def test_a_mistake_is_named_with_what_was_probably_meant(words: str, said: str) -> None:
    with pytest.raises(UserError) as raised:
        parse(words.split())
    assert str(raised.value) == said


def test_each_command_is_parsed_without_the_others() -> None:
    everything = {word.after[0] if word.after else word.text for word in words_of(build_parser())}
    assert {name for name in everything if not name.startswith("-")} == set(COMMANDS)
    for name in COMMANDS:
        assert name in {word.text for word in words_of(build_parser(name)) if not word.after}


def test_exec_with_a_daemon_sends_its_message_before_it_loads_the_protocols_types(home: Home) -> None:
    home.script({"text": "hello"})
    assert home.run("daemon", "start").code == 0
    try:
        command = [sys.executable, "-X", "importtime", "-m", "buddy", "exec", "hi"]
        done = subprocess.run(
            command, env=home.env, cwd=home.work, capture_output=True, text=True, timeout=60, check=True
        )
    finally:
        home.run("daemon", "stop")
    assert done.stdout == "hello\n"
    before, _, after = done.stderr.partition("session sess_")
    assert _modules(before) & {"msgspec", "pathlib", "buddy.protocol.events"} == set()
    assert _modules(before + after) & {"asyncio", "httpx2", "apsw", "ssl", "logging", "buddy.daemon"} == set()


def _modules(report: str) -> set[str]:
    return {line.rpartition("|")[2].strip() for line in report.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize("words", [["hello"], ["explain"], ["config the server for me"], ["--", "config"], ["Config"]])
def test_what_is_no_command_is_a_prompt(words: list[str]) -> None:
    assert parse(words).prompt == words[-1]


def test_a_word_that_is_no_command_can_be_sent_as_a_prompt() -> None:
    for words, hint in ((["config"], "buddy -- config"), (["plugin", "add"], 'buddy -- "plugin …"')):
        with pytest.raises(UserError) as raised:
            parse(words)
        assert raised.value.hint == f"to send it as a prompt: {hint}"
