"""`buddy approvals` and `buddy trust`, as a person types them."""

import hashlib
import json
from collections.abc import Iterator

import pytest

from tests.harness.home import Home
from tests.harness.scripts import Reply, shell

RULES = """
[[permissions.rules]]
decision = "allow"
argv = ["echo", "**"]

[[permissions.rules]]
decision = "deny"
argv = ["curl", "**"]
"""


def ruled(home: Home, *replies: Reply) -> Home:
    home.script(*replies)
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text() + RULES)
    return home


@pytest.mark.slow
def test_the_audit_shows_who_decided_what_without_a_daemon(home: Home) -> None:
    ruled(home, shell("echo hi"), shell("curl \x1b[31mx"), shell("touch y"), {"text": "done"})
    assert home.run("exec", "go", "--approve", "all").code == 0
    done = home.run("approvals", "log")
    lines = done.out.splitlines()
    assert [line.split()[2] for line in lines] == ["approve", "deny", "approve"]
    assert ["run_shell echo hi" in lines[0], "run_shell curl" in lines[1], "policy" in lines[2]] == [True] * 3
    assert "\x1b" not in done.out
    found = json.loads(home.run("approvals", "log", "--json").out)["decisions"]
    assert [made["by"].partition(":")[0] for made in found] == ["rule", "rule", "policy"]
    assert [made["summary"] for made in found] == ["echo hi", "curl \x1b[31mx", "touch y"]
    session = found[0]["sessionId"]
    assert home.run("approvals", "log", "--session", session, "--limit", "1").out.splitlines() == lines[2:]
    assert home.run("approvals", "log", "--since", "1h").out == done.out
    assert home.run("approvals", "log", "--since", "2100-01-01").out == ""


def test_what_the_audit_cannot_answer_is_one_line_and_a_hint(home: Home) -> None:
    ruled(home, {"text": "done"})
    empty = home.run("approvals", "log")
    assert (empty.code, empty.out, empty.err) == (0, "", "no decisions yet\n")
    for flags in (("--limit", "0"), ("--since", "soon"), ("--session", "sess_NOPE")):
        wrong = home.run("approvals", "log", *flags)
        assert (wrong.code, wrong.out) == (64, "")
        assert len(wrong.err.splitlines()) <= 2
        assert wrong.err.startswith("error: ")


DEAD = '\n[[permissions.rules]]\ndecision = "allow"\nargv = ["make", "**"]\n'


@pytest.mark.slow
def test_rules_that_match_nothing_are_named_wherever_somebody_looks(home: Home) -> None:
    ruled(home, {"text": "done"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text() + DEAD)
    why = "no longer matches anything: make may run what its words say"
    instead = 'such as argv = ["make", "WORD"]'
    for command in (("exec", "go"), ("approvals", "list"), ("doctor",), ("daemon", "start")):
        done = home.run(*command)
        said = done.out + done.err
        assert said.count(why) == 1, command
        assert instead in said
    home.run("daemon", "stop")
    listed = json.loads(home.run("approvals", "list", "--json").out)["rules"]
    assert [why in rule.get("problem", "") for rule in listed] == [False, False, True]


def test_explain_decides_as_a_call_would(home: Home) -> None:
    (home.work / "build.sh").write_text("echo hi\n")
    (home.work / "sub").mkdir()
    ruled(home, {"text": "done"})
    rule = '\n[[permissions.rules]]\ndecision = "allow"\nargv = ["bash", "build.sh"]\nscripts = ["DIGEST  build.sh"]\n'
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    digest = hashlib.sha256(b"echo hi\n").hexdigest()
    config.write_text(config.read_text() + rule.replace("DIGEST", digest))
    assert home.run("approvals", "explain", "bash build.sh").code == 0
    assert home.run("approvals", "explain", "echo x").code == 0
    assert home.run("approvals", "explain", "echo x", "--cwd", "sub").code == 10
    assert home.run("approvals", "explain", "curl x", "--cwd", "sub").code == 3
    outside = home.run("approvals", "explain", "echo x", "--cwd", "..")
    assert (outside.code, outside.out) == (64, "")
    (home.work / "build.sh").write_text("echo changed\n")
    changed = home.run("approvals", "explain", "bash build.sh")
    assert changed.code == 10
    assert "not what it was when the rule was made" in changed.out


STRICTER = '[agent]\nmodel = "evil"\n[[permissions.rules]]\ndecision = "deny"\nargv = ["echo", "**"]\n'


@pytest.fixture
def stopped(home: Home) -> Iterator[None]:
    """The daemon that a terminal started does not outlive the test."""
    yield
    home.run("daemon", "stop")


@pytest.mark.slow
@pytest.mark.usefixtures("stopped")
def test_a_folder_is_asked_about_once_and_the_answer_is_bound_to_its_files(home: Home) -> None:
    ruled(home, {"text": "done"})
    project = home.work / "buddy.toml"
    for content, answer in ((STRICTER, "n"), (STRICTER + "# changed", "y")):
        project.write_text(content)
        with home.terminal() as terminal:
            terminal.wait_for("Trust these files as they are now? [y/N]")
            assert b"adds 1 rule that asks or denies; always ignored: agent" in terminal.shown
            terminal.type(f"{answer}\n")
            terminal.wait_for("/help")
        assert home.run("approvals", "explain", "echo hi").code == (3 if answer == "y" else 0)
        with home.terminal() as terminal:
            terminal.wait_for("/help")
            assert b"Trust these" not in terminal.shown


@pytest.mark.slow
def test_a_headless_run_in_an_untrusted_folder_says_so_in_one_line(home: Home) -> None:
    home.script({"text": "done"})
    (home.work / "buddy.toml").write_text(STRICTER)
    done = home.run("exec", "go")
    assert (done.code, done.out) == (0, "done\n")
    (note,) = [line for line in done.err.splitlines() if "trust" in line]
    assert note == f"note: ignoring buddy.toml in this folder. To use it: buddy trust {home.work}"
    said = home.run("trust", str(home.work))
    assert "buddy.toml  adds 1 rule that asks or denies; always ignored: agent" in said.err
    assert "trust" not in home.run("exec", "go").err
    assert home.run("trust", str(home.work), "--revoke").code == 0
    assert home.run("approvals", "explain", "echo hi").code == 10
    assert "trust" not in home.run("exec", "go").err


def test_a_file_that_is_used_as_the_configuration_is_not_called_ignored(home: Home) -> None:
    home.script({"text": "done"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    (home.work / "buddy.toml").write_text(config.read_text())
    done = home.run("exec", "--config", "buddy.toml", "go")
    assert (done.code, "ignoring" in done.err) == (0, False)


@pytest.mark.slow
def test_a_script_can_park_its_question_and_somebody_decides_it_later(home: Home) -> None:
    home.script(shell("touch made"), {"text": "made it"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    text = config.read_text()
    config.write_text(text.replace("[agent]\n", '[agent]\napproval_timeout = "park"\n'))
    denied = home.run("exec", "make it", "--sandbox", "host")
    assert denied.code == 3  # nobody asked for questions
    parked = home.run("exec", "make it", "--sandbox", "host", "--approve", "ask")
    assert (parked.code, parked.out) == (75, ""), parked.err
    assert "parked: waiting for approval to run a shell command" in parked.err
    approval_id = parked.err.partition("show|approve|deny ")[2].partition(";")[0]
    session_id = parked.err.partition("buddy resume ")[2].split()[0]
    assert not (home.work / "made").exists()
    try:
        assert home.run("approvals", "approve", approval_id).code == 0
        done = home.run("resume", session_id)
        assert (done.code, done.out) == (0, "made it\n"), done.err
        assert (home.work / "made").exists()
    finally:
        home.run("daemon", "stop")
