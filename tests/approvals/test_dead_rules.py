"""Rules that can no longer match anything are named, with what to write instead."""

import pytest

from buddy.approvals.dead_rules import find_dead_rules
from buddy.approvals.rules import Rule


@pytest.mark.parametrize(
    "pattern",
    [
        "make **", "npm run *", "tar **", "find **", "python manage.py **", "mytool **", "./x *", "gcc-12 **", "ls -* x", "ls --col* **", "git config **",
        "git push *", "rg --pre * x", "rg --pre=* x", "git -C * status", "pytho* x", "git log --output=*",
    ],
)  # fmt: skip
def test_a_rule_that_matches_nothing_is_named(pattern: str) -> None:
    (dead,) = find_dead_rules([Rule("allow", argv=tuple(pattern.split()))])
    assert "no longer matches anything: " in dead.describe()
    assert dead.instead
    assert find_dead_rules([Rule("deny", argv=tuple(pattern.split()))]) == []


@pytest.mark.parametrize(
    "pattern",
    [
        "git log **", "git **", "git *", "git commit -m **", "git log --format=* **", "git push origin *", "**", "* **", "ls **", "ls -la **",
        "date *", "curl **", "curl https://*.example.com/*", "wget *", "gh pr *", "jq * x", "cat src/*.py", "cp * *", "dd **", "echo [ab]c", "ech? [!x]",
        "make test", "find . -name [*].py", "./x", "cat src/**/*.py",
    ],
)  # fmt: skip
def test_a_rule_that_matches_something_is_not(pattern: str) -> None:
    assert find_dead_rules([Rule("allow", argv=tuple(pattern.split()))]) == []


def test_a_rule_that_matches_less_than_it_says_is_named() -> None:
    (dead,) = find_dead_rules([Rule("allow", argv=("git", "push", "**"))])
    assert dead.text.startswith("matches nothing but `git push` itself")
    assert dead.instead == 'write the repository: argv = ["git", "push", "origin", "**"]'


@pytest.mark.parametrize(
    "rule",
    [
        Rule("allow", argv=("echo", "a\u200bb")),
        Rule("allow", path="geheime\u0301/**"),
        Rule("allow", host="docs.*.com"),
        Rule("allow", host="*"),
    ],
)
def test_what_no_call_can_be_is_named(rule: Rule) -> None:
    assert len(find_dead_rules([rule])) == 1
