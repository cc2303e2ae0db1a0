"""The decision on a call: one table, and what holds for every combination."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as some

from buddy.approvals.decide import (
    NO_NETWORK,
    NOBODY_ASKED,
    NOT_OUTSIDE,
    PLAN_ONLY,
    Decision,
    Mode,
    decide,
    needs_decision,
)
from buddy.approvals.questions import Opinion, Question
from buddy.protocol.actors import SESSION_GRANT, RuleActor, RuntimeActor
from buddy.protocol.codes import ApprovalKind, Policy, Tier
from buddy.protocol.intents import AgentTool, Exec, Fetch, Intent, Keys, Other, Write, stays_inside

NOTHING = Opinion(None, "no rule applies")
ASK = Opinion("ask", "a rule asks", "r1", by_rule=True)
UNSURE = Opinion("ask", "rules can't vouch for it")
ALLOW = Opinion("allow", "a rule allows", "r1")
DENY = Opinion("deny", "a rule denies", "r1")
LIMIT = Opinion("deny", "too long")
POLICY = RuntimeActor.POLICY
PLAN, HEADLESS, ATTENDED = Mode(plan=True), Mode(headless=True), Mode(headless=True, attended=True)


def exec_with(network: bool | None, sandbox: str = "confined", agent: AgentTool | None = None) -> Exec:
    return Exec(title="", summary="", command="ls", cwd="/w", network=network, sandbox=sandbox, agent=agent)


def write_to(path: str, sandbox: str = "confined", agent: AgentTool | None = None) -> Write:
    return Write(title="", summary="", path=path, protected=path.endswith(".env"), sandbox=sandbox, agent=agent)


LEAVING = Exec(title="", summary="", command="ls", cwd="/w", sandbox="host", outside=True)
DROID = AgentTool("droid", "Execute", {}, "/w")
INSIDE: list[Intent] = [
    exec_with(network=False),
    exec_with(network=False, sandbox="container"),
    write_to("/w/x"),
    write_to("/w/x", "container"),
]
OUTSIDE: list[Intent] = [
    LEAVING,
    exec_with(None, "host"),
    exec_with(None, "container"),
    exec_with(network=True),
    exec_with(network=False, sandbox="host"),
    exec_with(network=False, agent=DROID),
    exec_with(network=False, sandbox="container", agent=DROID),
    write_to("/w/x", "host"),
    write_to("/w/.env"),
    write_to("/w/.env", "container"),
    write_to("/w/x", agent=DROID),
    Fetch(title="", summary="", host="example.com", sandbox="confined"),
    Keys(title="", summary="", pane="", text="ls", keys=("Enter",), sandbox="confined"),
    *(Other(title="", summary="", kind=kind, sandbox="confined") for kind in get_args(ApprovalKind)),
]

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
    (asked(INSIDE[0]), NOTHING, "auto", None, Mode(), Decision("approve", POLICY)),
    (asked(INSIDE[0]), UNSURE, "auto", None, HEADLESS, Decision("approve", POLICY)),
    (asked(INSIDE[0]), ASK, "auto", None, Mode(), Decision("ask", why="a rule asks")),
    (asked(INSIDE[0]), ASK, "auto", None, HEADLESS, Decision("deny", POLICY, NOBODY_ASKED)),
    (asked(INSIDE[0]), ASK, "auto", None, ATTENDED, Decision("ask", why="a rule asks")),
    (asked(INSIDE[0]), DENY, "auto", None, Mode(), Decision("deny", RuleActor("r1"), "a rule denies")),
    (asked(INSIDE[0]), NOTHING, "auto", None, PLAN, Decision("deny", RuleActor("plan"), PLAN_ONLY)),
    (asked(OUTSIDE[0]), NOTHING, "auto", None, Mode(), Decision("ask", why="no rule applies")),
    (asked(OUTSIDE[0]), NOTHING, "auto", None, HEADLESS, Decision("deny", POLICY, NOBODY_ASKED)),
    (asked(OUTSIDE[0]), NOTHING, "auto", None, ATTENDED, Decision("ask", why="no rule applies")),
    (asked(OUTSIDE[0]), ALLOW, "auto", None, HEADLESS, Decision("approve", RuleActor("r1"))),
    (asked(OUTSIDE[0]), NOTHING, "auto", SESSION_GRANT, HEADLESS, Decision("approve", SESSION_GRANT)),
    (asked(OUTSIDE[0]), NOTHING, "ask", None, HEADLESS, Decision("ask", why="no rule applies")),
    (asked(LEAVING), NOTHING, "all", None, Mode(), Decision("ask", why="no rule applies")),
    (asked(LEAVING), NOTHING, "all", None, HEADLESS, Decision("deny", RuleActor("sandbox"), NOT_OUTSIDE)),
    (asked(LEAVING), NOTHING, "all", SESSION_GRANT, HEADLESS, Decision("approve", SESSION_GRANT)),
    (asked(LEAVING), ALLOW, "auto", None, HEADLESS, Decision("approve", RuleActor("r1"))),
]


@pytest.mark.parametrize(("question", "opinion", "policy", "grant", "mode", "decision"), TABLE)
def test_the_strongest_reason_decides(
    question: Question, opinion: Opinion, policy: Policy, grant: RuleActor | None, mode: Mode, decision: Decision
) -> None:
    assert decide(question, opinion, policy, grant, mode) == decision


questions = some.builds(asked, some.sampled_from([*INTENTS, *INSIDE, *OUTSIDE]), some.sampled_from(get_args(Tier)))
opinions = some.sampled_from([NOTHING, UNSURE, ASK, ALLOW, DENY, LIMIT])
modes = some.builds(Mode, some.booleans(), some.booleans(), some.booleans())
policies: some.SearchStrategy[Policy] = some.sampled_from(["ask", "auto", "all", "none"])
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


@pytest.mark.parametrize("intent", INSIDE)
def test_what_stays_inside_a_proven_sandbox_runs_by_policy_auto(intent: Intent) -> None:
    assert decide(asked(intent), NOTHING, "auto", None, Mode()) == Decision("approve", POLICY)


@pytest.mark.parametrize("intent", OUTSIDE)
def test_whatever_needs_more_is_asked_under_policy_auto(intent: Intent) -> None:
    assert decide(asked(intent), NOTHING, "auto", None, Mode()).verdict == "ask"
    assert decide(asked(intent), NOTHING, "auto", None, HEADLESS) == Decision("deny", POLICY, NOBODY_ASKED)


@given(questions, opinions, grants, modes)
def test_auto_approves_by_itself_only_what_stays_inside(
    question: Question, opinion: Opinion, grant: RuleActor | None, mode: Mode
) -> None:
    decision = decide(question, opinion, "auto", grant, mode)
    if decision == Decision("approve", POLICY):
        assert stays_inside(question.intent)


@given(questions, opinions, grants, modes)
def test_auto_approves_everything_that_ask_approves_and_nothing_that_all_does_not(
    question: Question, opinion: Opinion, grant: RuleActor | None, mode: Mode
) -> None:
    policies: tuple[Policy, ...] = ("ask", "auto", "all")
    by_policy = [decide(question, opinion, policy, grant, mode).verdict == "approve" for policy in policies]
    assert by_policy == sorted(by_policy)


@given(questions, opinions, policies, grants, some.booleans())
def test_without_a_person_only_ask_waits_for_an_answer(
    question: Question, opinion: Opinion, policy: Policy, grant: RuleActor | None, plan: bool
) -> None:
    decision = decide(question, opinion, policy, grant, Mode(plan, headless=True))
    assert decision.verdict != "ask" or policy == "ask"
