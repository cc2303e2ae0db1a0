"""What people, or the runtime on their behalf, say to the model."""

from buddy.protocol.facts import EventFacts, Payload
from buddy.protocol.shapes import Attachment, ToolCallItem


class UserMessage(Payload, frozen=True, kw_only=True):
    """`steers`: it joined an active run. `redacted`: parts hidden by guess; `as_is`: only registered secrets are.

    `expanded` is what a slash command or a skill stands for; `insertions` are calls whose output belongs to it.
    """

    facts = EventFacts(lasts=True, lasts_for_agents=True, copied=True, traced=True)
    message_id: str
    text: str
    by: str
    steers: bool = False
    redacted: int = 0
    as_is: bool = False
    expanded: str | None = None
    insertions: tuple[ToolCallItem, ...] = ()
    attachments: tuple[Attachment, ...] = ()
