"""The decision on a call: one table, and what holds for every combination."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as some

from buddy.approvals.decide import NO_NETWORK, PLAN_ONLY, Decision, Mode, decide, needs_decision
from buddy.approvals.questions import Opinion, Question
from buddy.protocol.actors import SESSION_GRANT, RuleActor, RuntimeActor
from buddy.protocol.codes import ApprovalKind, Policy, Tier
from buddy.protocol.intents import Exec, Fetch, Intent, Keys, Other, Write

NOTHING = Opinion(None, "no rule applies")
ASK = Opinion("ask", "a rule asks", "r1")
ALLOW = Opinion("allow", "a rule allows", "r1")
DENY = Opinion("deny", "a rule denies", "r1")
LIMIT = Opinion("deny", "too long")
POLICY = RuntimeActor.POLICY
PLAN, HEADLESS = Mode(plan=True), Mode(headless=True)


def exec_with(network: bool | None) -> Exec:
    return Exec(title="", summary="", command="ls", cwd="/w", network=network)


INTENTS: list[Intent] = [
    exec_with(None),
    exec_with(network=False),
    exec_with(network=True),
    Write(title="", summary="", path="/w/x", protected=False),
    Write(title="", summary="", path="/w/.env", protected=True),
    Fetch(title="", summary="", host="example.com"),
    Keys(title="", summary="", pane="", text="ls", keys=("Enter",)),
    *(Other(title="", summary="", kind=kind) for kind in get_args(ApprovalKind)),
]


def asked(intent: Intent = INTENTS[0], tier: Tier = "privileged") -> Question:
    return Question("call_1", tier, intent, "digest", "run_shell")


TABLE: list[tuple[Question, Opinion, Policy, RuleActor | None, Mode, Decision]] = [
    (asked(), NOTHING, "ask", None, Mode(), Decision("ask", why="no rule applies")),
    (asked(), ASK, "ask", None, Mode(), Decision("ask", why="a rule asks")),
    (asked(), DENY, "all", SESSION_GRANT, Mode(), Decision("deny", RuleActor("r1"), "a rule denies")),
    (asked(), LIMIT, "all", None, Mode(), Decision("deny", RuleActor("limit"), "too long")),
    (asked(), DENY, "all", None, PLAN, Decision("deny", RuleActor("r1"), "a rule denies")),
    (asked(), ALLOW, "all", SESSION_GRANT, PLAN, Decision("deny", RuleActor("plan"), PLAN_ONLY)),
    (asked(Other(title="", summary="")), ALLOW, "all", None, PLAN, Decision("deny", RuleActor("plan"), PLAN_ONLY)),
    (asked(tier="read-only"), ASK, "ask", None, PLAN, Decision("ask", why="a rule asks")),
    (asked(), ALLOW, "none", None, Mode(), Decision("approve", RuleActor("r1"))),
    (asked(), ASK, "all", None, Mode(), Decision("approve", POLICY)),
    (asked(), NOTHING, "none", SESSION_GRANT, Mode(), Decision("deny", POLICY)),
    (asked(), NOTHING, "none", None, HEADLESS, Decision("deny", POLICY)),
    (asked(), NOTHING, "ask", SESSION_GRANT, Mode(), Decision("approve", SESSION_GRANT)),
    (asked(), ASK, "ask", RuleActor("g1"), Mode(), Decision("approve", RuleActor("g1"))),
    (asked(exec_with(network=True)), NOTHING, "all", None, Mode(), Decision("ask", why="no rule applies")),
    (asked(exec_with(network=True)), NOTHING, "all", RuleActor("g1"), Mode(), Decision("approve", RuleActor("g1"))),
    (
        asked(exec_with(network=True)),
        NOTHING,
        "all",
        None,
        HEADLESS,
        Decision("deny", RuleActor("network"), NO_NETWORK),
    ),
    (asked(exec_with(network=True)), ALLOW, "all", None, HEADLESS, Decision("approve", RuleActor("r1"))),
    (asked(exec_with(network=False)), NOTHING, "all", None, HEADLESS, Decision("approve", POLICY)),
]


@pytest.mark.parametrize(("question", "opinion", "policy", "grant", "mode", "decision"), TABLE)
def test_the_strongest_reason_decides(
    question: Question, opinion: Opinion, policy: Policy, grant: RuleActor | None, mode: Mode, decision: Decision
) -> None:
    assert decide(question, opinion, policy, grant, mode) == decision


questions = some.builds(asked, some.sampled_from(INTENTS), some.sampled_from(get_args(Tier)))
opinions = some.sampled_from([NOTHING, ASK, ALLOW, DENY, LIMIT])
policies: some.SearchStrategy[Policy] = some.sampled_from(["ask", "all", "none"])
grants = some.sampled_from([None, SESSION_GRANT, RuleActor("g1")])


@given(questions, policies, grants, some.booleans(), some.booleans())
def test_a_rule_that_denies_wins_over_everything(
    question: Question, policy: Policy, grant: RuleActor | None, plan: bool, headless: bool
) -> None:
    assert decide(question, DENY, policy, grant, Mode(plan, headless)).verdict == "deny"


@given(questions, opinions, policies, grants, some.booleans())
def test_plan_mode_never_allows_more(
    question: Question, opinion: Opinion, policy: Policy, grant: RuleActor | None, headless: bool
) -> None:
    planning = decide(question, opinion, policy, grant, Mode(plan=True, headless=headless))
    if question.tier != "read-only":
        assert planning.verdict == "deny"
    else:
        assert planning == decide(question, opinion, policy, grant, Mode(headless=headless))


@given(questions, opinions, policies, grants, some.booleans(), some.booleans())
def test_every_call_that_is_not_left_to_a_person_has_a_decider(
    question: Question, opinion: Opinion, policy: Policy, grant: RuleActor | None, plan: bool, headless: bool
) -> None:
    decision = decide(question, opinion, policy, grant, Mode(plan, headless))
    assert (decision.verdict == "ask") == (decision.by is None)


@given(questions, opinions)
def test_nothing_above_read_only_starts_without_a_decision(question: Question, opinion: Opinion) -> None:
    assert needs_decision(question.tier, opinion) or question.tier == "read-only"
