"""The decision on one call: a pure function of what is asked, the rules, the policy, the grants and the mode.

From the strongest to the weakest: a rule or a hook that denies, plan mode, a hook that asks, a rule or a hook that
allows, the policy, what a person granted for the session or for a while, and a person.

Invariants: a rule that denies wins over everything; plan mode only takes away; every call above read-only gets a
decision, or a person is asked; `auto` never approves what could have an effect outside a proven sandbox.
"""

from typing import Literal

from msgspec import Struct

from buddy.approvals.questions import Opinion, Question
from buddy.protocol.actors import Actor, RuleActor, RuntimeActor
from buddy.protocol.codes import Policy, Tier
from buddy.protocol.hook_events import HookVerdict
from buddy.protocol.intents import Exec, Intent, Other, Write, opens_sandbox, stays_inside

PLAN_ONLY = "this session is in plan mode, which only reads; continue without it"
NO_NETWORK = "a confined command gets network only by a rule with network = true or from a person; continue without it"
NOT_OUTSIDE = 'a command leaves the sandbox only by a rule with sandbox = "host" or from a person; continue without it'
NOBODY_ASKED = "it needs more than the sandbox allows, and nobody can be asked; continue without it"


class Mode(Struct, frozen=True):
    """How the session was started: only to plan, headless, and if so, whether somebody answers nevertheless."""

    plan: bool = False
    headless: bool = False
    attended: bool = False


class Decision(Struct, frozen=True):
    """`ask` leaves it to a person; then `by` is None and `why` says why nothing else decided it."""

    verdict: Literal["approve", "deny", "ask"]
    by: Actor | None = None
    why: str = ""


def decide(question: Question, opinion: Opinion, policy: Policy, grant: RuleActor | None, mode: Mode) -> Decision:
    """`opinion` is what the rules say, `policy` the one in force now, `grant` what a person granted for this before."""
    if opinion.decision == "deny":
        return Decision("deny", _actor(opinion), opinion.why)
    if mode.plan and question.tier != "read-only" and not _follows_plan(question):
        return Decision("deny", RuleActor("plan"), PLAN_ONLY)
    if opinion.decision == "allow":
        return Decision("approve", _actor(opinion))
    if policy == "none":
        return Decision("deny", RuntimeActor.POLICY)
    if opinion.by_hook and not _has_person(policy, mode):
        return Decision("deny", RuntimeActor.HOOK, opinion.why)
    if opinion.must_ask:
        return Decision("ask", why=opinion.why)
    if _covers(policy, question, opinion):
        return Decision("approve", RuntimeActor.POLICY)
    if grant is not None:
        return Decision("approve", grant)
    return _leave_to_person(policy, mode, question.intent, opinion.why)


def _follows_plan(question: Question) -> bool:
    return isinstance(question.intent, Other) and question.intent.follows_plan


def tighten(opinion: Opinion, hooked: HookVerdict | None, why: str) -> Opinion:
    """The rules' opinion with what hooks said about the call; a rule that denies stays."""
    if opinion.decision == "deny":
        return opinion
    match hooked:
        case "deny":
            return Opinion("deny", why, by_hook=True)
        case "ask" | "failed":
            return Opinion("ask", why, by_rule=True, must_ask=True, by_hook=True)
        case "allow":
            return Opinion("allow", why, by_hook=True)
        case "none" | "changed" | None:
            return opinion


def may_allow(question: Question, opinion: Opinion) -> bool:
    """Whether a hook's `allow` counts: not where a rule asks, nor for what only a person may open."""
    protected = isinstance(question.intent, Write) and question.intent.protected
    leaves_open = opinion.decision != "deny" and not opinion.by_rule and not opinion.must_ask
    return leaves_open and not protected and not opens_sandbox(question.intent)


def _actor(opinion: Opinion) -> Actor:
    return RuntimeActor.HOOK if opinion.by_hook else RuleActor(opinion.rule_id or "limit")


def _covers(policy: Policy, question: Question, opinion: Opinion) -> bool:
    """Whether the policy approves the call. `all` relies on the confinement of commands, so it does not open it."""
    if policy == "auto":
        return stays_inside(question.intent) and not opinion.by_rule
    return policy == "all" and not opens_sandbox(question.intent)


def _leave_to_person(policy: Policy, mode: Mode, intent: Intent, why: str) -> Decision:
    """A run without a person continues without what its policy does not cover; `ask` demands an answer."""
    if _has_person(policy, mode):
        return Decision("ask", why=why)
    if policy == "auto":
        return Decision("deny", RuntimeActor.POLICY, NOBODY_ASKED)
    if isinstance(intent, Exec) and intent.outside:
        return Decision("deny", RuleActor("sandbox"), NOT_OUTSIDE)
    return Decision("deny", RuleActor("network"), NO_NETWORK)


def _has_person(policy: Policy, mode: Mode) -> bool:
    return policy == "ask" or not mode.headless or mode.attended


def needs_decision(tier: Tier, opinion: Opinion) -> bool:
    """Reading needs none, unless a rule asks for it or denies it."""
    return tier != "read-only" or opinion.decision in ("ask", "deny")
