"""A target to hold the contract against."""

from msgspec import Struct

from buddy.targets.carriers import Carrier
from buddy.targets.contract import Target
from buddy.targets.exchange import ask


class Where(Struct, frozen=True):
    """A target, a fresh workspace on it, and the shortest way to the same machine."""

    kind: str
    target: Target
    root: str
    beside: Carrier


async def there(where: Where, script: str) -> bytes:
    """What a script gives on the target's machine, past the target."""
    answer = await ask(where.beside, ["sh", "-c", script])
    assert answer.code == 0, answer.errors
    return answer.output
