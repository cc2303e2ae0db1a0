"""What the console shows of text from outside is what the terminal shows of it."""

import random

import pytest

from buddy.terminal.approval_prompt import describe_rule
from buddy.terminal.approval_screen import Asked, approval_text
from buddy.terminal.escape import escape, escape_all
from tests.console.conftest import Pure

WIDE = 100_000


@pytest.mark.slow
def test_every_character_is_spelled_as_in_the_terminal(pure: Pure) -> None:
    characters = [chr(code) for code in range(0x110000)]
    assert pure("visible", characters) == [escape(character) for character in characters]
    assert pure("exact", characters) == [escape_all(character) for character in characters]


def test_colours_of_a_program_are_dropped_progress_is_lines_and_other_escapes_are_visible(pure: Pure) -> None:
    assert pure("output", ["\x1b[1;31mred\x1b[0m", "\x1b]0;title\x07", "a\r\nb", "1%\r50%\r100%\r\r\nok\r"]) == [
        "red",
        "\\x1b]0;title\\x07",
        "a\nb",
        "1%\n50%\n100%\nok\n",
    ]


def test_an_approval_has_the_same_lines_as_in_the_terminal(pure: Pure) -> None:
    choice = random.Random(7)  # noqa: S311 - the same cases in every run
    pieces = [
        "rm -rf /",
        " " * 40,
        " " * 31,
        "\n",
        "\n\n\n\n",
        "\t",
        "\u202e",
        "é",
        "x" * 50,
        "│ ",
        "… 3 spaces",
        "\x1b[2J",
    ]
    for _ in range(300):
        command = "".join(choice.choice(pieces) for _ in range(choice.randint(0, 12)))
        shown = approval_text(Asked("Run a command", "", {"command": command}), WIDE, prompt="")
        expected = [(line.kind, line.text.strip().removeprefix("↪ ").strip()) for line in shown.lines[1:-1]]
        found = pure("rows", [command, "command"])
        assert [(line["kind"], line["text"].strip()) for line in found if line["text"].strip()] == [
            (kind, text) for kind, text in expected if text
        ]


def test_an_approval_has_the_same_facts_as_in_the_terminal(pure: Pure) -> None:
    details = {
        "command": "make\ttest",
        "cwd": "/srv/shop\n",
        "target": "local",
        "sandbox": "host",
        "why": "no rule covers this",
        "environment": {},
        "wait": None,
        "network": "off",
        "scripts": {"Makefile": "abc"},
        "scriptsComplete": False,
        "sha256": "hidden",
    }
    shown = approval_text(Asked("Run a command", "", details), WIDE)
    found = pure("asked", {"title": "Run a command", "summary": "", "details": details})
    facts = [f"{name}: {value}" for name, value in found["facts"]]
    assert facts == [line.text for line in shown.lines if line.kind == "fact"]


def test_a_rule_has_the_same_words_as_in_the_terminal(pure: Pure) -> None:
    offered = {
        "decision": "allow",
        "tool": "run_shell",
        "argv": ["seq", "1", "300"],
        **dict.fromkeys(("path", "host", "sandbox", "network", "cwd", "scripts")),
        "target": "local",
        "workspace": "/srv/shop",
    }
    shell = {"tool": "run_shell", "argv": ["git", "commit", "-m", "a b"]}
    rules: list[object] = [
        offered,
        {**offered, "cwd": "src", "scripts": ["9f  make it.sh", "a0  b.py"], "sandbox": "host"},
        {"tool": "run_shell", "argv": ["a", 'b"c', "", "`", "it's", "\\", "é", "a\u200db\x1b[2J", "\x85", "\u3000"]},
        {**shell, "target": "ssh:box", "network": True},
        {**shell, "network": False},
        {"tool": "edit_file", "path": "a b.py", "workspace": "/w"},
        {"tool": "fetch_url", "host": "x.test", "later": [1, {"a": "b"}]},
        {"decision": "deny", "tool": "mcp__x__y", "definition": "9f"},
        {"tool": "run_shell"},
        {},
        "an older rule",
    ]
    assert pure("rules", rules) == [describe_rule(rule) for rule in rules]


def test_a_diff_is_numbered_on_both_sides(pure: Pure) -> None:
    found = pure("diff", "--- a/x\n+++ b/x\n@@ -3,3 +3,3 @@\n one\n-two\n+2\n+2b\n three\n")
    kinds = [(row["kind"], row["old"], row["new"]) for row in found["rows"]]
    assert kinds == [
        ("file", None, None),
        ("file", None, None),
        ("hunk", None, None),
        ("same", 3, 3),
        ("remove", 4, None),
        ("add", None, 4),
        ("add", None, 5),
        ("same", 5, 6),
    ]
    pairs = [
        (pair["left"] and pair["left"]["old"], pair["right"] and pair["right"]["new"]) for pair in found["pairs"][3:]
    ]
    assert pairs == [(3, 3), (4, 4), (None, 5), (5, 6)]
