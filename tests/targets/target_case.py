"""A target under test."""

from msgspec import Struct

from buddy.targets.contract import Target
from buddy.targets.launchers import Launcher
from buddy.targets.oneshot import ask


class TargetCase(Struct, frozen=True):
    """A target, a new workspace on it, and direct access to the same machine."""

    kind: str
    target: Target
    root: str
    beside: Launcher


async def there(where: TargetCase, script: str) -> bytes:
    """The output of a script on the target's machine, run without the target."""
    answer = await ask(where.beside, ["sh", "-c", script])
    assert answer.code == 0, answer.errors
    return answer.output
