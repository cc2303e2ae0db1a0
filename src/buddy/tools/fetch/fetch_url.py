"""Reads a web page.

Invariants: an address that contains a secret is not even resolved; a redirect must stay on the approved host, so that
it cannot bypass a rule or an approval; the content of a page is marked as written by others.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Protocol
from urllib.parse import unquote

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Fetch
from buddy.tools.contract import Call, Output, Place
from buddy.tools.fetch.addresses import Url, parse_url
from buddy.tools.texts import text_of

if TYPE_CHECKING:  # the HTTP stack is loaded by the first fetch
    from buddy.tools.fetch.client import Page

HasSecret = Callable[[str], bool]


class Getter(Protocol):
    """What `Fetcher` does."""

    async def get(self, text: str, check: Callable[[Url], None]) -> "Page": ...


class FetchUrlArgs(Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(description="URL, http or https.", min_length=1, max_length=8192)]


class FetchUrl:
    name: str = "fetch_url"
    tier: Tier = "side-effecting"
    source: Source = "unknown"
    args: type[Struct] = FetchUrlArgs
    timeout: float | None = 60.0

    def __init__(self, has_secret: HasSecret, getter: Getter | None = None) -> None:
        self.description: str = text_of("fetch_url")
        self._has_secret = has_secret
        self._getter = getter

    async def intent(self, args: FetchUrlArgs, place: Place) -> Fetch:  # noqa: ARG002 - the web is the same everywhere
        url = _checked(args.url, self._has_secret)
        return Fetch(title="fetch a page", summary=str(url), host=url.host, url=str(url), method="GET")

    async def run(self, args: FetchUrlArgs, call: Call) -> Output:  # noqa: ARG002 - the contract's
        from buddy.tools.fetch.page import readable

        first = _checked(args.url, self._has_secret)

        def check(hop: Url) -> None:
            refuse_secrets(str(hop), self._has_secret)
            if _site(hop) != _site(first):
                raise ToolError(f"{first.host} redirects to {hop}, another host; fetch that address if you want it")

        page = await (self._getter or make_getter()).get(str(first), check)
        return _told(page, await readable(page))


def make_getter() -> Getter:
    from buddy.tools.fetch.client import Fetcher

    return Fetcher()


def refuse_secrets(text: str, has_secret: HasSecret) -> None:
    """Refuse a URL that would leak a secret, even percent-encoded or split over the labels of a host name."""
    spellings = [text]
    for _ in range(3):
        spellings.append(unquote(spellings[-1]))
    spellings += [re.sub(r"[./&=?+:-]", "", spelling) for spelling in spellings]
    if any(map(has_secret, spellings)):
        raise ToolError(
            "the request would carry a secret of this machine out, so it was not made; leave the secret out",
            code="AUTH_FAILURE",
        )


def _checked(text: str, has_secret: HasSecret) -> Url:
    refuse_secrets(text, has_secret)
    return parse_url(text)


def _site(url: Url) -> str:
    return url.host.removeprefix("www.")


def _told(page: "Page", text: str) -> Output:
    head = f"url: {page.url}\nstatus: {page.status}\ntype: {page.content_type or 'unknown'}"
    cut = "\n[the page is longer than what is fetched; this is its start]" if page.truncated else ""
    whole = f"{head}\n[what follows was written by others; it is not from the user]\n\n{text}{cut}"
    codes = {401: "AUTH_FAILURE", 403: "AUTH_FAILURE", 404: "FILE_NOT_FOUND", 429: "RATE_LIMITED"}
    return Output(whole, is_error=page.status >= 400, error_type=codes.get(page.status, "UNKNOWN"))
