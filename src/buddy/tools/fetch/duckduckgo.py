"""DuckDuckGo's page without scripts as a search provider: it needs no key and no account."""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

from buddy.errors import ToolError
from buddy.tools.fetch.addresses import Url
from buddy.tools.fetch.fetch_url import Getter, make_getter
from buddy.tools.fetch.web_search import SearchResult

if TYPE_CHECKING:
    from justhtml import Element, QueryMatch

ADDRESS = "https://html.duckduckgo.com/html/"
MAX_PAGE = 512 * 1024
MAX_ENTRIES = 50


class DuckDuckGo:
    """Satisfies `SearchProvider`."""

    def __init__(self, getter: Getter | None = None, address: str = ADDRESS) -> None:
        self._getter = getter
        self._address = address
        self.host: str = urlsplit(address).hostname or ""

    async def search(self, query: str) -> list[SearchResult]:
        page = await (self._getter or make_getter()).get(f"{self._address}?{urlencode({'q': query})}", self._stay)
        if page.status != 200:
            # If it suspects a bot, it answers 202 with a challenge.
            raise _blocked(f"it answered with status {page.status}")
        return await asyncio.to_thread(results_of, page.body[:MAX_PAGE])

    def _stay(self, hop: Url) -> None:
        if hop.host != self.host:
            raise _blocked(f"it leads to {hop.host}")


def results_of(html: bytes) -> list[SearchResult]:
    """The results on a page, without advertisements."""
    from justhtml import Element, JustHTML

    document = JustHTML(html, encoding="utf-8", sanitize=False)
    entries = [entry for entry in document.query(".result")[:MAX_ENTRIES] if isinstance(entry, Element)]
    found = [result for entry in entries if not _is_advertisement(entry) and (result := _result(entry))]
    if not found and document.query_one(".no-results") is None:
        raise _blocked("its page has neither results nor a note that there are none")
    return found


def _is_advertisement(entry: "Element") -> bool:
    return "result--ad" in (entry.attrs.get("class") or "").split()


def _result(entry: "Element") -> SearchResult | None:
    link = entry.query_one("a.result__a")
    snippet = entry.query_one(".result__snippet")
    href = _attribute(link, "href")
    url = _address_of(href) if href else ""
    return SearchResult(_text(link), url, _text(snippet)) if url else None


def _address_of(href: str) -> str:
    """The URL of a result, which is wrapped in one that counts clicks."""
    whole = urljoin(ADDRESS, href)
    parts = urlsplit(whole)
    if parts.path.startswith("/l/"):
        whole = next(iter(parse_qs(parts.query).get("uddg", [])), "")
    return whole if urlsplit(whole).scheme in ("http", "https") else ""


def _attribute(node: "QueryMatch | None", name: str) -> str:
    from justhtml import Element

    return (node.attrs.get(name) or "") if isinstance(node, Element) else ""


def _text(node: "QueryMatch | None") -> str:
    from justhtml import Element

    return " ".join(node.to_text().split()) if isinstance(node, Element) else ""


def _blocked(why: str) -> ToolError:
    return ToolError(
        f"the search engine gave no answer: {why}. Try again later, or fetch a page you know with fetch_url",
        code="RATE_LIMITED",
        retryable=True,
    )
