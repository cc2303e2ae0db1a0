"""What keys type, as Buddy reads it, against a real shell in a real pane: whatever runs there was judged before."""

import shutil
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from buddy.protocol.typed_text import InputLine, press
from buddy.targets.tmux.pane import argument
from tests.fuzz.conftest import Budget
from tests.harness.installed import need
from tests.harness.processes import wait_until

WORDS = ("echo", "tou", "ch", "x", "a b", "touch", "'", '"', "\\", ";", "q", "0", "Space bar", "C-foo", "Entering", "^")
KEYS = (
    *("Space", "space", "BSpace", "Left", "Right", "Home", "End", "Delete", "DC", "KP5", "0x61", "0x20"),
    *("C-a", "C-e", "C-b", "C-f", "C-h", "C-k", "C-u", "^A", "^E", "C-A"),
)


@pytest.fixture
def pane() -> Generator[tuple[list[str], Path]]:
    """The start of a tmux command for a server of its own, and the file in which its shell notes each line it reads."""
    need("tmux")
    folder = Path(tempfile.mkdtemp(prefix="bk"))
    words = ["tmux", "-f", "/dev/null", "-S", str(folder / "socket")]
    # The lines are read with the same editor as a shell's own, and nothing of them runs.
    (folder / "read.sh").write_text(f'while IFS= read -er line; do printf "%s\\n" "$line" >> {folder}/lines; done\n')
    shell = f"bash --noprofile --norc -i {folder}/read.sh"
    subprocess.run([*words, "new-session", "-d", "-x", "2000", "-y", "20", shell], check=True)
    try:
        yield words, folder / "lines"
    finally:
        subprocess.run([*words, "kill-server"], check=False)
        shutil.rmtree(folder)


@pytest.mark.slow
def test_the_line_that_a_shell_reads_is_the_one_that_was_judged(pane: tuple[list[str], Path], fuzz: Budget) -> None:
    tmux, lines = pane
    for attempt in fuzz:
        keys = [fuzz.random.choice(fuzz.random.choice((WORDS, KEYS))) for _ in range(fuzz.random.randint(1, 12))]
        text = fuzz.random.choice(("", "", "lit eral", "q\x08r\x01s\x05", "Enter C-c"))
        typed = press(InputLine(), text, tuple(keys))
        assert typed.after.is_known, keys
        commands = [["-l", "--", text]] if text else []
        for sent in (*commands, ["--", *keys], ["Enter"]):
            subprocess.run([*tmux, "send-keys", *map(argument, sent)], check=True)
        wanted = attempt + 1
        wait_until(lambda wanted=wanted: lines.exists() and lines.read_text().count("\n") >= wanted, "the line")
        assert lines.read_text().splitlines()[-1] == typed.text, (text, keys)
