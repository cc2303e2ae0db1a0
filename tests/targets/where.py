"""A target to hold the contract against."""

from msgspec import Struct

from buddy.targets.carriers import Carrier
from buddy.targets.contract import Target


class Where(Struct, frozen=True):
    """A target, its carrier, a fresh workspace on it, and the shortest way to the same machine."""

    target: Target
    carrier: Carrier
    root: str
    beside: Carrier
