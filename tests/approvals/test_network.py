"""Network for a confined command: allowed by what says so, and never along with the command."""

import pytest

from buddy.approvals.questions import RuleDecision
from buddy.approvals.rules import Rule, Rules, Subject, suggest


def opinion(*rules: Rule, network: bool) -> RuleDecision | None:
    return (
        Rules(rules).judge(Subject("run_shell", command="git log HEAD", sandbox="confined", network=network)).decision
    )


def test_a_rule_for_the_words_alone_grants_no_network() -> None:
    for rule in (Rule("allow", argv=("git", "log", "HEAD")), Rule("allow", tool="run_shell"), Rule("allow")):
        assert opinion(rule, network=True) is None
        assert opinion(rule, network=False) == "allow"


def test_a_rule_that_says_network_grants_it_and_only_it() -> None:
    rule = Rule("allow", argv=("git", "log", "HEAD"), network=True)
    assert opinion(rule, network=True) == "allow"
    assert opinion(rule, network=False) is None


@pytest.mark.parametrize("decision", ["ask", "deny"])
def test_a_stricter_rule_need_not_mention_the_network(decision: RuleDecision) -> None:
    allow = Rule("allow", argv=("git", "**"), network=True)
    assert opinion(allow, Rule(decision, argv=("git", "**")), network=True) == decision
    assert opinion(allow, Rule(decision, network=True), network=True) == decision
    assert opinion(Rule("allow", argv=("git", "log", "HEAD")), Rule(decision, network=True), network=False) == "allow"


def test_always_says_what_was_asked_for() -> None:
    with_network = suggest(Subject("run_shell", command="git log HEAD", sandbox="confined", network=True))
    without = suggest(Subject("run_shell", command="git log HEAD", sandbox="confined"))
    assert with_network is not None and without is not None
    assert with_network.describe().endswith("with network")
    assert opinion(with_network, network=True) == "allow"
    assert opinion(without, network=True) is None


def leaving(*rules: Rule) -> RuleDecision | None:
    return Rules(rules).judge(Subject("run_shell", command="git log -3", sandbox="host", outside=True)).decision


def test_only_a_rule_that_says_host_lets_a_command_out_of_the_sandbox() -> None:
    for rule in (Rule("allow", argv=("git", "log", "-3")), Rule("allow", tool="run_shell"), Rule("allow")):
        assert leaving(rule) is None
    assert leaving(Rule("allow", argv=("git", "log", "-3"), sandbox="confined")) is None
    allowed = Rule("allow", argv=("git", "log", "-3"), sandbox="host")
    assert leaving(allowed) == "allow"
    assert leaving(allowed, Rule("deny", argv=("git", "**"))) == "deny"
    always = suggest(Subject("run_shell", command="git log -3", sandbox="host", outside=True))
    assert always is not None
    assert leaving(always) == "allow"
