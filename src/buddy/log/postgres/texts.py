"""Texts as the database can store them, and as the list of sessions is searched."""

from typing import overload


@overload
def text(value: str) -> str: ...
@overload
def text(value: str | None) -> str | None: ...
def text(value: str | None) -> str | None:
    """PostgreSQL has no NUL in a text; it is replaced by the symbol for it, always the same way."""
    return value.replace("\0", "\u2400") if value else value


def folded(value: str | None) -> str | None:
    """A text as it is searched, ignoring the case of all letters."""
    return None if value is None else text(value.casefold())
