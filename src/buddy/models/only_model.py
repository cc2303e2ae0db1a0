"""The model of a server that was named without one."""

from collections.abc import Awaitable, Callable

from buddy.config.resolve import Resolved
from buddy.config.server_address import without_credentials
from buddy.errors import UserError
from buddy.models.listing import Listing

SHOWN = 10


async def find_only_model(resolved: Resolved, list_models: Callable[[Resolved], Awaitable[Listing]]) -> str:
    """The only model that the server offers; UserError with what it offers otherwise."""
    listing = await list_models(resolved)
    names = sorted(listing.models)
    if len(names) == 1:
        return names[0]
    server = without_credentials(resolved.base_url) or resolved.base_url
    if not names:
        raise UserError(
            f"BUDDY_MODEL is not set, and {server} could not be asked for its models: {listing.trouble}",
            hint="set BUDDY_MODEL, or check BUDDY_BASE_URL",
        )
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    raise UserError(
        f"BUDDY_MODEL is not set, and {server} offers {len(names)} models", hint=f"set BUDDY_MODEL to one of: {shown}"
    )
