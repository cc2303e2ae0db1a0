"""Programs of the person that need the terminal itself get it, and give it back."""

import pytest

from buddy.terminal.full_screen import needs_terminal
from tests.harness.home import Home
from tests.harness.terminal import Tmux

FULL_SCREEN = r"""#!/bin/bash
printf '\033[?1049h\033[Hthe whole screen of %s' "$PWD"
trap 'printf " interrupted"' INT
while ! IFS= read -rsn1 key; do :; done
printf '\033[?1049l'
echo "the key was $key"
exit 3
"""


def test_a_full_screen_program_has_the_terminal_until_it_ends(home: Home) -> None:
    programs = home.directory / "programs"
    programs.mkdir()
    program = programs / "top"
    program.write_text(FULL_SCREEN)
    program.chmod(0o755)
    home.env["PATH"] = f"{programs}:{home.env['PATH']}"
    with home.script({"text": "hi"}) and Tmux(home) as terminal:
        terminal.wait_for("(shift-tab)")
        terminal.enter("!top")
        screen = terminal.wait_for(f"the whole screen of {home.work}")
        assert "(shift-tab)" not in screen
        terminal.keys("C-c")
        terminal.wait_for("interrupted")
        terminal.type("x")
        screen = terminal.wait_for("the key was x")
        terminal.wait_for("(shift-tab)")
        terminal.enter("!top")
        terminal.wait_for("the whole screen of")
        terminal.type("y")
        screen = terminal.wait_for("exit 3")
        assert "the key was y" in screen
        assert "Press Ctrl-C again" not in screen
        terminal.enter("hello")
        terminal.wait_for("✓ done")


@pytest.mark.parametrize(
    "command",
    [
        "vim",
        "vim notes.md",
        "/usr/bin/vi x",
        "EDITOR=ed nano x",
        "git log | less",
        "make && htop",
        "sudo apt install x",
        "git commit",
        "git commit --amend",
        "git rebase -i main",
        "git add -p",
    ],
)
def test_a_program_that_needs_the_terminal_is_known(command: str) -> None:
    assert needs_terminal(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "ls",
        "echo vim",
        "grep -r less .",
        "git log",
        "git commit -m x",
        "git commit -am 'vim'",
        "git commit --no-edit --amend",
        "git rebase main",
        "git add .",
        "python -m top",
        "echo 'unbalanced",
    ],
)
def test_other_commands_run_without_the_terminal(command: str) -> None:
    assert not needs_terminal(command)
