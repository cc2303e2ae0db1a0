"""The wires by API name. A new one is a module like `completions.py`, a name in `settings.Api`, and a row here."""

from collections.abc import Callable

from msgspec import Struct

from buddy.models.contract import Provider
from buddy.models.credentials import Credentials
from buddy.models.http.pool import Pool


class Endpoint(Struct, frozen=True):
    """A model at a server; `login` means that an account pays instead of an API key."""

    profile: str
    base_url: str
    credentials: str | Credentials
    model: str
    context_limit: int
    login: bool = False


def make_wire(api: str, endpoint: Endpoint, pool: Pool | None = None) -> Provider:
    return _WIRES[api](endpoint, pool)


def _completions(at: Endpoint, pool: Pool | None) -> Provider:
    from buddy.models.completions import Completions

    return Completions(at.profile, at.base_url, at.credentials, at.model, at.context_limit, pool=pool)


def _responses(at: Endpoint, pool: Pool | None) -> Provider:
    from buddy.models.responses import Responses

    return Responses(at.profile, at.base_url, at.credentials, at.model, at.context_limit, login=at.login, pool=pool)


def _anthropic(at: Endpoint, pool: Pool | None) -> Provider:
    from buddy.models.anthropic import Anthropic

    return Anthropic(at.profile, at.base_url, at.credentials, at.model, at.context_limit, pool=pool)


def _gemini(at: Endpoint, pool: Pool | None) -> Provider:
    from buddy.models.gemini import Gemini

    return Gemini(at.profile, at.base_url, at.credentials, at.model, at.context_limit, pool=pool)


_WIRES: dict[str, Callable[[Endpoint, Pool | None], Provider]] = {
    "completions": _completions,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}
