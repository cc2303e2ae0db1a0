"""`buddy mcp`: servers are added, tested, listed and removed; sessions of the command line use them."""

import json
import sys
from pathlib import Path

import pytest

from tests.harness.home import Home
from tests.harness.processes import ROOT
from tests.harness.scripts import shell
from tests.tools.mcp.servers import MODULES, lines

SERVER = (sys.executable, "-m", "tests.harness.mcp_server")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def add(home: Home, name: str = "one", **env: str) -> None:
    flags = [flag for key, value in {**MODULES, **env}.items() for flag in ("--env", f"{key}={value}")]
    added = home.run("mcp", "add", name, *flags, "--", *SERVER)
    assert added.code == 0, added.err


def test_a_server_is_added_tested_listed_used_and_removed(home: Home) -> None:
    ledger = home.directory / "ledger"
    home.script({"calls": [{"name": "mcp__one__echo", "args": {"text": "hello"}}]}, {"text": "it answered"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text("# mine\n" + config.read_text())
    add(home, MCP_LEDGER=str(ledger))
    assert config.read_text().startswith("# mine\n") and "[mcp.servers.one]" in config.read_text()
    tested = home.run("mcp", "test", "one")
    assert tested.code == 0 and " tools, tests" in tested.out and "    echo" in tested.out
    done = home.run("exec", "go", "--approve", "all", "--json")
    assert json.loads(done.out)["text"] == "it answered", done.err
    assert lines(ledger) == ["echo hello"]
    removed = home.run("mcp", "remove", "one")
    assert removed.code == 0 and home.run("mcp", "list").err.startswith("no MCP servers")
    assert home.run("mcp", "remove", "one").code == 1


@pytest.mark.slow
def test_a_server_that_is_down_is_named_with_its_last_words(home: Home) -> None:
    add(home)
    assert home.run("mcp", "add", "broken", "--", "sh", "-c", "echo no database >&2; exit 3").code == 0
    assert home.run("mcp", "add", "away", "http://127.0.0.1:9/mcp", "--header", "X-Key: s3cr3t-s3cr3t").code == 0
    tested = home.run("mcp", "test")
    assert tested.code == 1
    listed = home.run("mcp", "list", "--json")
    assert listed.code == 0 and "s3cr3t" not in tested.out + listed.out + listed.err
    found = {one["name"]: one for one in json.loads(listed.out)["servers"]}
    assert {name: one["state"] for name, one in found.items()} == {"one": "ready", "broken": "failed", "away": "failed"}
    assert found["broken"]["problem"] == "it exited with code 3" and found["broken"]["stderr"] == "no database"
    for shown in (tested.out, home.run("doctor").out):
        assert "no database" in shown and "exited with code 3" in shown
    assert home.run("mcp", "test", "one").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "x"), "needs a command or a URL"),
        (("add", "a b", "--", "true"), "cannot be a name"),
        (("add", "x", "http://h/", "--env", "A=1"), "takes no command and no --env"),
        (("add", "x", "--env", "A", "--", "true"), "has no '='"),
        (("test", "missing"), "no MCP server 'missing'"),
    ],
)
def test_mistakes_are_usage_errors(home: Home, arguments: tuple[str, ...], message: str) -> None:
    done = home.run("mcp", *arguments)
    assert done.code == 64 and message in done.err


@pytest.mark.slow
def test_a_command_that_names_a_file_of_this_folder_runs_there(home: Home) -> None:
    text = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom tests.harness.mcp_server import server\nserver.run()\n"
    (home.work / "serve.py").write_text(text)
    assert home.run("mcp", "add", "here", "--", sys.executable, "serve.py").code == 0
    assert home.run("mcp", "test").code == 0
    config = (home.directory / ".config" / "buddy" / "buddy.toml").read_text()
    assert f'cwd = "{home.work}"' in config


@pytest.mark.slow
def test_a_projects_file_is_listed_once_it_is_trusted(home: Home) -> None:
    entry = {"command": SERVER[0], "args": list(SERVER[1:]), "env": MODULES}
    (home.work / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": entry}}))
    before = home.run("mcp", "list")
    assert "theirs" not in before.out and "ignored until the folder is trusted" in before.err
    assert home.run("trust", ".").code == 0
    assert "theirs  ok" in home.run("mcp", "list").out


@pytest.mark.slow
def test_a_question_without_a_person_is_declined_and_said(home: Home) -> None:
    home.script({"calls": [{"name": "mcp__one__order", "args": {}}]}, {"text": "nothing ordered"})
    add(home)
    done = home.run("exec", "go", "--approve", "all")
    assert done.code == 0 and done.out == "nothing ordered\n"
    assert "? mcp:one asks: What would you like?" in done.err
    assert "question declined by policy; nobody is there to be asked" in done.err


@pytest.mark.slow
def test_a_question_is_answered_at_the_terminal_of_exec(home: Home) -> None:
    home.script({"calls": [{"name": "mcp__one__order", "args": {}}]}, {"text": "ordered"})
    add(home)
    with home.terminal("exec", "go", "--approve", "ask") as terminal:
        terminal.wait_for("approve? [y/N]")
        terminal.type("y\n")
        terminal.wait_for("answer (size=… colour=…")
        terminal.type("size=big colour=red\n")
        terminal.wait_for("size must be of type integer")
        terminal.type("colour=red\n")
        terminal.wait_for("ordered")


@pytest.mark.slow
def test_lines_typed_before_a_question_do_not_answer_it(home: Home) -> None:
    wait = "while ! test -d typed; do sleep 0.05; done"
    home.script(shell(wait, "wait"), {"calls": [{"name": "mcp__one__order", "args": {}}]}, {"text": "ordered"})
    add(home)
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    rule = '[[permissions.rules]]\ndecision = "allow"\ntool = "mcp__one__order"\n'
    config.write_text(config.read_text() + rule)
    with home.terminal("exec", "go", "--approve", "ask", "--sandbox", "host") as terminal:
        terminal.wait_for("approve? [y/N]")
        terminal.type("y\n")
        terminal.wait_for("approved by")
        terminal.type("colour=blue\n")
        (home.work / "typed").mkdir()
        terminal.wait_for("answer (size=… colour=…")
        terminal.type("colour=red\n")
        terminal.wait_for("ordered")
    assert "'colour': 'red'" in home.run("session", "show", "last").out


@pytest.mark.slow
def test_a_question_is_answered_at_the_terminal_of_attach(home: Home) -> None:
    home.script({"calls": [{"name": "mcp__one__order", "args": {}}]}, {"text": "ordered at last"})
    add(home)
    assert home.run("daemon", "start").code == 0
    try:
        with home.terminal("exec", "go", "--approve", "ask") as first:
            first.wait_for("approve? [y/N]")
            first.type("y\n")
            first.wait_for("answer (size=… colour=…")
            session_id = json.loads(home.run("ps", "--json").out)[0]["sessionId"]
            with home.terminal("attach", session_id) as other:
                other.wait_for("answer (size=… colour=…")
                other.type("size=big colour=red\n")
                other.wait_for("size must be of type integer")
                other.type("colour=red\n")
                other.wait_for("ordered at last")
            first.wait_for("ordered at last")
    finally:
        home.run("daemon", "stop")


@pytest.mark.slow
def test_a_rule_allows_a_tool_by_its_name_and_nothing_else(home: Home) -> None:
    ledger = home.directory / "ledger"
    home.script(
        {"calls": [{"name": "mcp__one__echo", "args": {"text": "by rule"}}]},
        {"calls": [{"name": "mcp__one__add", "args": {"a": 1, "b": 2}}]},
        {"text": "done"},
    )
    add(home, MCP_LEDGER=str(ledger))
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    rule = '\n[[permissions.rules]]\ndecision = "allow"\ntool = "mcp__one__echo"\n'
    config.write_text(config.read_text() + rule)
    done = home.run("exec", "go", "--approve", "none")
    assert done.code == 3 and lines(ledger) == ["echo by rule"]
