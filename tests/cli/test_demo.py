"""`buddy demo` reports what happened, failures included."""

import tempfile
from pathlib import Path

import pytest

from buddy.cli.demo.checks import Evidence, expectations
from tests.harness.home import Home


def test_piped_it_is_short_plain_text_and_leaves_nothing_behind(home: Home) -> None:
    home.env |= {"TMPDIR": str(home.work), "BUDDY_MODEL": "nonsense", "BUDDY_FAULT": "claim.before:1:kill"}
    done = home.run("demo", env={"BUDDY_FAULT": ""})
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert len(lines) <= 40
    assert done.out.isascii()
    assert "\x1b" not in done.out
    for word in ("session", "approval", "approved", "claimed", "SIGKILL", "recovered", "unknown", "check", "complete"):
        assert any(word in line.split()[:4] or f"{word}:" in line for line in lines), word
    seqs = [int(line.split()[0]) for line in lines if line.split()[0].isdigit() and line.startswith(" ")]
    assert seqs == sorted(seqs)
    assert lines[-1].startswith("7 of 7 expectations met, in ")
    assert list(home.work.iterdir()) == []


@pytest.mark.slow
def test_on_a_terminal_it_has_colour_unless_that_is_turned_off(home: Home) -> None:
    home.env["TMPDIR"] = str(home.work)
    with home.terminal("demo", "--fast") as terminal:
        assert terminal.finish() == 0
    assert b"\x1b[" in terminal.shown
    home.env["NO_COLOR"] = "1"
    with home.terminal("demo", "--fast") as terminal:
        assert terminal.finish() == 0
    assert b"\x1b" not in terminal.shown


@pytest.mark.slow
def test_when_something_fails_it_says_what_and_keeps_the_evidence(home: Home) -> None:
    programs = home.directory / "bin"
    programs.mkdir()
    (programs / "awk").write_text("#!/bin/sh\necho total 11\n", encoding="utf-8")
    (programs / "awk").chmod(0o755)
    kept = home.directory / "kept"
    kept.mkdir()
    done = home.run("demo", env={"PATH": f"{programs}:{home.env['PATH']}", "TMPDIR": str(kept)})
    assert done.code == 1
    assert "FAIL  the acceptance check passed" in done.out
    assert "6 of 7 expectations met" in done.out
    (directory,) = kept.iterdir()
    assert str(directory) in done.err
    assert (directory / "work" / "report.txt").read_text() == "total 11\n"


def test_without_evidence_no_expectation_is_met() -> None:
    with tempfile.TemporaryDirectory() as directory:
        assert not any(met for _, met in expectations(Evidence(Path(directory))))
