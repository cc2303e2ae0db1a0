"""The names of the APIs that a profile can have, and the fields that their wires keep for themselves.

Invariants: a wire prefixes each field of its own in a reply's `opaque` with its API's name and an underscore, so no
wire needs to know the fields of another.
"""

from typing import get_args

from buddy.config.settings import Api

HTTP_APIS: tuple[str, ...] = tuple(api for api in get_args(Api) if api != "scripted")

_PREFIXES = tuple(f"{api}_" for api in HTTP_APIS)


def is_private_field(name: str) -> bool:
    """Whether a field of `opaque` belongs to a wire, rather than to the server that sent it."""
    return name.startswith(_PREFIXES)


def other_apis(api: str) -> list[str]:
    return [other for other in HTTP_APIS if other != api]
