"""What the tables of `buddy.toml` have in common."""

from typing import Annotated

from msgspec import Meta, Struct

Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(gt=0)]


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""
