"""`buddy completion`: scripts that shells take."""

import shutil
import subprocess

import pytest

from cli.driving import Home


def completed(home: Home, *words: str) -> list[str]:
    script = home.run("completion", "bash").out
    line = f'{script}\nCOMP_WORDS=({" ".join(words)} ""); COMP_CWORD={len(words)}; _buddy; echo "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout.split()


def test_bash_offers_commands_actions_and_flags(home: Home) -> None:
    assert {"exec", "session", "resume", "completion"} <= set(completed(home, "buddy"))
    assert {"list", "show", "search", "import"} <= set(completed(home, "buddy", "session"))
    assert {"--json", "--accept"} <= set(completed(home, "buddy", "exec"))
    assert completed(home, "buddy", "completion")[:0] == []
    assert "--child" not in completed(home, "buddy", "demo")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_itself_takes_the_script(home: Home, shell: str) -> None:
    script = home.run("completion", shell).out
    assert "session" in script
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    assert subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False).returncode == 0
