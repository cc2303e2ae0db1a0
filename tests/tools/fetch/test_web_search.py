"""Searching the web: a page as the search engine sends it, and what happens when it sends something else."""

import asyncio
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.tools.contract import Call, Place
from buddy.tools.fetch.duckduckgo import DuckDuckGo, results_of
from buddy.tools.fetch.web_search import SearchResult, WebSearch, WebSearchArgs
from tests.tools.fetch.loopback import fetcher, reply, serving

PAGE = Path(__file__).with_name("search_page.html").read_bytes()
NONE = b'<html><body><div class="results"><div class="no-results">No results.</div></div></body></html>'
PUZZLE = b'<html><body><div class="anomaly-modal__title">Unfortunately, bots use this too.</div></body></html>'
QUERY = "durable & sessions"


def no_secret(_text: str) -> bool:
    return False


async def search(body: bytes, call: Call, *headers: str, status: str = "200 OK") -> tuple[str, str]:
    """What the model receives, and the first line of what the engine was asked."""
    asked: list[str] = []

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        asked.append(head.split("\r\n", maxsplit=1)[0])
        writer.write(reply(body, *headers, status=status, kind="text/html; charset=UTF-8"))

    async with serving(answer) as port:
        engine = DuckDuckGo(fetcher(max_bytes=100_000), f"http://search.example:{port}/html/")
        text = (await WebSearch(no_secret, engine).run(WebSearchArgs(QUERY), call)).text
    return text, asked[0]


async def test_results_have_their_real_urls(call: Call) -> None:
    text, asked = await search(PAGE, call)
    assert asked == "GET /html/?q=durable+%26+sessions HTTP/1.1"
    assert text.splitlines() == [
        "[what follows was written by others; it is not from the user]",
        "1. A guide to durable sessions & more",
        "   https://docs.example.org/guide?a=1&b=2",
        "   What a session keeps when the process, or the machine, goes away.",
        "2. A plain link",
        "   https://plain.example.net/",
    ]


async def test_at_most_eight_results_are_returned(call: Call) -> None:
    many = b"".join(
        b'<div class="result"><a class="result__a" href="https://x.example/%d">t</a></div>' % number
        for number in range(30)
    )
    text, _ = await search(many, call)
    assert text.count("https://x.example/") == 8


async def test_no_results_are_reported_as_such(call: Call) -> None:
    assert (await search(NONE, call))[0] == "no results for 'durable & sessions'"


@pytest.mark.parametrize(
    ("body", "status", "headers"),
    [
        (PUZZLE, "202 Accepted", ()),
        (PUZZLE, "200 OK", ()),
        (b"", "200 OK", ()),
        (b"", "403 Forbidden", ()),
        (b"", "302 SearchResult", ("Location: http://elsewhere.example/",)),
    ],
)
async def test_an_unusable_answer_is_an_error_and_never_no_results(
    call: Call, body: bytes, status: str, headers: tuple[str, ...]
) -> None:
    with pytest.raises(ToolError, match="the search engine gave no answer") as refused:
        await search(body, call, *headers, status=status)
    assert (refused.value.code, refused.value.retryable) == ("RATE_LIMITED", True)


async def test_a_query_that_carries_a_secret_is_not_sent(place: Place, call: Call) -> None:
    class Nobody:
        host: str = "nobody.example"

        async def search(self, query: str) -> list[SearchResult]:
            raise AssertionError(f"{query} was sent")

    tool = WebSearch(lambda text: "hunter22" in text, Nobody())
    args = WebSearchArgs("what is hunter22")
    for attempt in (tool.intent(args, place), tool.run(args, call)):
        with pytest.raises(ToolError, match="carry a secret"):
            await attempt


async def test_the_search_engine_and_the_query_are_shown(place: Place) -> None:
    intent = await WebSearch(no_secret, DuckDuckGo()).intent(WebSearchArgs(QUERY), place)
    assert (intent.kind, intent.details) == ("fetch", {"query": QUERY, "host": "html.duckduckgo.com"})


def test_a_page_of_garbage_is_an_error() -> None:
    for html in (b"\xff\xfe\x00", b"<div class=result>" * 500, b"plain"):
        with pytest.raises(ToolError):
            results_of(html)
