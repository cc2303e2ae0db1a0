"""Searching the web.

Invariants: a query that contains a secret is not sent; a response that cannot be interpreted is an error, never
"no results".
"""

from typing import Annotated, Protocol

from msgspec import Meta, Struct

from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Fetch
from buddy.tools.contract import Call, Output, Place
from buddy.tools.fetch.fetch_url import HasSecret, refuse_secrets
from buddy.tools.texts import text_of

MAX_RESULTS = 8


class SearchResult(Struct, frozen=True):
    title: str
    url: str
    snippet: str


class SearchProvider(Protocol):
    """A search engine. `host` is what permission rules match."""

    host: str

    async def search(self, query: str) -> list[SearchResult]:
        """The results, best first; ToolError if the response cannot be interpreted."""
        ...


class WebSearchArgs(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(description="Search query.", min_length=1, max_length=500)]


class WebSearch:
    name: str = "web_search"
    tier: Tier = "side-effecting"
    source: Source = "web-search"
    args: type[Struct] = WebSearchArgs
    timeout: float | None = 60.0

    def __init__(self, has_secret: HasSecret, provider: SearchProvider) -> None:
        self.description: str = text_of("web_search")
        self._has_secret = has_secret
        self._provider = provider

    async def intent(self, args: WebSearchArgs, place: Place) -> Fetch:  # noqa: ARG002 - the web is the same everywhere
        refuse_secrets(args.query, self._has_secret)
        return Fetch(title="search the web", summary=args.query, host=self._provider.host, query=args.query)

    async def run(self, args: WebSearchArgs, call: Call) -> Output:  # noqa: ARG002 - the contract's
        refuse_secrets(args.query, self._has_secret)
        found = (await self._provider.search(args.query))[:MAX_RESULTS]
        if not found:
            return Output(f"no results for {args.query!r}")
        entries = [f"{number}. {_render(entry)}" for number, entry in enumerate(found, 1)]
        return Output("[what follows was written by others; it is not from the user]\n" + "\n".join(entries))


def _render(found: SearchResult) -> str:
    return "\n   ".join(line for line in (found.title, found.url, found.snippet) if line)
