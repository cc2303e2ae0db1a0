"""`buddy completion`: scripts that shells take, and what they offer then."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.harness.home import Home
from tests.harness.installed import need
from tests.harness.processes import BUDDY
from tests.harness.terminal import Tmux


@pytest.fixture
def said(home: Home) -> Iterator[Home]:
    """A home with a session, and `buddy` on the path."""
    home.script({"text": "hi"}).run("exec", "a prompt that is: remembered")
    program = home.directory / "bin" / "buddy"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {" ".join(BUDDY)} "$@"\n')
    program.chmod(0o755)
    home.env["PATH"] = f"{program.parent}:{home.env['PATH']}"
    yield home
    home.run("daemon", "stop")


def shell_of(name: str) -> str:
    need(name)
    return name


def completed(home: Home, *words: str) -> list[str]:
    script = home.run("completion", "bash").out
    line = f'{script}\nCOMP_WORDS=({" ".join(words)} ""); COMP_CWORD={len(words)}; _buddy; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", line], env=home.env, capture_output=True, text=True, check=True)
    return done.stdout.split()


def session_of(home: Home) -> str:
    return home.run("completion", "sessions").out.partition("\t")[0]


@pytest.mark.slow
def test_bash_offers_commands_actions_flags_and_sessions(said: Home) -> None:
    assert {"exec", "session", "resume", "completion"} <= set(completed(said, "buddy"))
    assert {"list", "show", "search", "import"} <= set(completed(said, "buddy", "session"))
    assert {"--json", "--accept"} <= set(completed(said, "buddy", "exec"))
    assert {"bash", "zsh", "fish"} == {word for word in completed(said, "buddy", "completion") if word[0] != "-"}
    assert "--child" not in completed(said, "buddy", "demo")
    assert session_of(said) in completed(said, "buddy", "resume")
    assert session_of(said) in completed(said, "buddy", "session", "show")
    assert "--plan" in completed(said, "buddy")


def test_bash_completes_after_values_prompts_and_ids(said: Home) -> None:
    assert {"--json", "--accept"} <= set(completed(said, "buddy", "exec", "--approve", "all"))
    assert {"--json", "--accept"} <= set(completed(said, "buddy", "exec", "go", "--max-turns", "3"))
    assert "--all" in completed(said, "buddy", "session", "list", "--limit", "3")
    assert "--seq" in completed(said, "buddy", "session", "fork", "last")
    assert completed(said, "buddy", "exec", "--approve") == ["ask", "auto", "all", "none"]
    assert completed(said, "buddy", "--sandbox") == ["host", "confined", "container"]
    assert completed(said, "buddy", "exec", "-C") == []


def test_fish_offers_them_with_what_they_are(said: Home) -> None:
    fish = shell_of("fish")
    (said.directory / "buddy.fish").write_text(said.run("completion", "fish").out)

    def offered(line: str) -> list[str]:
        command = f"source {said.directory}/buddy.fish; complete -C {line!r}"
        done = subprocess.run([fish, "-c", command], env=said.env, capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert "session\tlist, show, search, export, fork, import or delete sessions" in offered("buddy ses")
    assert any(line.startswith("show\t") for line in offered("buddy session s"))
    assert f"{session_of(said)}\ta prompt that is: remembered" in offered("buddy resume sess_")
    assert [line.partition("\t")[0] for line in offered("buddy exec --approve ")] == ["all", "ask", "auto", "none"]


@pytest.mark.slow
def test_zsh_completes_them_on_its_line(said: Home) -> None:
    zsh = shell_of("zsh")
    (said.directory / "buddy.zsh").write_text(said.run("completion", "zsh").out)
    (said.directory / ".zshrc").write_text("PS1='ready> '\nautoload -Uz compinit; compinit -u -D\nsource ~/buddy.zsh\n")
    with Tmux(said, program=f"{zsh} -i") as terminal:
        terminal.wait_for("ready>")
        terminal.type("buddy sess")
        terminal.keys("Tab")
        terminal.wait_for("ready> buddy session")
        terminal.type("sh")
        terminal.keys("Tab")
        terminal.wait_for("ready> buddy session show")
        terminal.type("sess_")
        terminal.keys("Tab")
        terminal.wait_for(f"ready> buddy session show {session_of(said)}")
        terminal.keys("C-u")
        terminal.type("buddy exec --approve al")
        terminal.keys("Tab")
        terminal.wait_for("buddy exec --approve all")
        terminal.type(" --stream")
        terminal.keys("Tab")
        terminal.wait_for(" --stream-json")


def test_a_shell_that_is_not_known_is_refused(home: Home) -> None:
    done = home.run("completion", "tcsh")
    assert done.code == 64
    assert "tcsh" in done.err
