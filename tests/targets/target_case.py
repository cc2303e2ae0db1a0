"""A target to hold the contract against."""

from msgspec import Struct

from buddy.targets.contract import Target
from buddy.targets.launchers import Launcher
from buddy.targets.oneshot import ask


class TargetCase(Struct, frozen=True):
    """A target, a fresh workspace on it, and the shortest way to the same machine."""

    kind: str
    target: Target
    root: str
    beside: Launcher


async def there(where: TargetCase, script: str) -> bytes:
    """What a script gives on the target's machine, past the target."""
    answer = await ask(where.beside, ["sh", "-c", script])
    assert answer.code == 0, answer.errors
    return answer.output
