"""What is asked before a call starts, and the answer."""

from msgspec import Struct

from buddy.protocol.codes import Tier
from buddy.tools.contract import Intent


class Question(Struct, frozen=True):
    """May this call start? `digest` is bound to exactly what would run."""

    call_id: str
    tier: Tier
    intent: Intent
    digest: str
    tool: str = ""


class Ruling(Struct, frozen=True):
    approved: bool
    by: str
    comment: str = ""
