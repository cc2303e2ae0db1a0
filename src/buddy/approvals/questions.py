"""What is asked before a call starts, what the rules say about it, and the answer."""

from collections.abc import Callable
from functools import cached_property
from typing import Literal

from msgspec import Struct

from buddy.protocol.codes import Tier
from buddy.protocol.intents import Intent

RuleDecision = Literal["allow", "ask", "deny"]


class Question(Struct, frozen=True, dict=True):
    """May this call start? `digest` is bound to exactly what would run; `tool` is the name that rules match.

    `bound` is the digest, or what computes it: most calls only read, and nobody looks at theirs.
    """

    call_id: str
    tier: Tier
    intent: Intent
    bound: str | Callable[[], str]
    tool: str = ""

    @cached_property
    def digest(self) -> str:
        return self.bound if isinstance(self.bound, str) else self.bound()


class Opinion(Struct, frozen=True):
    """What the rules say; `decision` is None if none of them applies.

    `by_rule`: a rule itself asks. Without it, "ask" only means that no rule can vouch for the call. `must_ask`: no
    policy decides it either, because it may be what a rule denies. `by_hook`: a hook decided it, or wants a person to.
    """

    decision: RuleDecision | None
    why: str
    rule_id: str | None = None
    by_rule: bool = False
    must_ask: bool = False
    by_hook: bool = False


class Ruling(Struct, frozen=True):
    """`waited` is true if a person was asked, so that what would run may have changed meanwhile."""

    approved: bool
    by: str
    comment: str = ""
    waited: bool = True
