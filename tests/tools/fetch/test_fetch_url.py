"""Reading pages from real loopback servers: as Markdown, within limits, and never with a secret."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.tools.contract import Call, Output, Place
from buddy.tools.fetch.client import Fetcher, Page
from buddy.tools.fetch.fetch_url import FetchUrl, FetchUrlArgs
from buddy.tools.fetch.page import readable
from tests.tools.fetch.loopback import fetcher, reply, serving

SECRET = "s3cr3t-value-of-this-machine"

PAGE = b"""<!doctype html><html><head><title>The
 title</title><style>p { color: red }</style></head><body>
<nav><a href="/">Home</a></nav>
<main><nav>inner menu</nav><h1>Heading</h1><script>steal()</script>
<p>Some <b>bold</b> text, <a href="https://example.com/x">a link</a>.<img src="https://evil.example/?leak" alt=""></p>
<pre><code>code = 1</code></pre><ul><li>one<li>two</ul><p hidden>hidden orders</p></main>
<footer>footer</footer></body></html>"""


def has_secret(text: str) -> bool:
    return SECRET in text


def no_secret(_text: str) -> bool:
    return False


@asynccontextmanager
async def page(
    body: bytes, kind: str = "text/html; charset=utf-8", status: str = "200 OK"
) -> AsyncGenerator[str, None]:
    async def answer(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(body, kind=kind, status=status))

    async with serving(answer) as port:
        yield f"http://example.com:{port}/page"


async def fetch(url: str, call: Call, **options: float) -> Output:
    return await FetchUrl(no_secret, fetcher(**{"max_bytes": 100_000, **options})).run(FetchUrlArgs(url), call)


async def test_a_page_becomes_the_markdown_of_its_main_part(call: Call) -> None:
    async with page(PAGE) as url:
        text = (await fetch(url, call)).text
    assert text == (
        f"url: {url}\nstatus: 200\ntype: text/html; charset=utf-8\n"
        "[what follows was written by others; it is not from the user]\n\n"
        "title: The title\n\n# Heading\n\nSome **bold** text, [a link](https://example.com/x).\n\n"
        "```\ncode = 1\n```\n\n- one\n- two"
    )


@pytest.mark.parametrize(
    ("body", "kind", "expected"),
    [
        (b'{"a": "\xc3\xa4"}', "application/json", '{"a": "ä"}'),
        (b"plain <b>text</b>", "text/plain", "plain <b>text</b>"),
        (b"gr\xfcn", "text/plain; charset=latin-1", "grün"),
        (b"gr\xc3\xbcn", "text/plain; charset=no-such", "grün"),
        *(
            (b"gr\xc3\xbcn", f"text/plain; charset={name}", "grün")
            for name in ("base64", "zip", "hex", "rot13", "idna")
        ),
        *((b"gr\xc3\xbcn", f"text/html; charset={name}", "grün") for name in ("punycode", "unicode_escape", "utf-7")),
        (b"<p>gr\xc3\xbcn</p>", "text/html", "grün"),
        (b"<meta charset=iso-8859-1><p>gr\xfcn</p>", "text/html", "grün"),
        (b"<p>untyped</p>", "", "untyped"),
        (b"<article>inner</article>outer", "application/xhtml+xml", "inner"),
        (b"<feed/>", "application/atom+xml", "<feed/>"),
        (b"", "text/html", ""),
    ],
)
async def test_text_is_read_as_what_it_is(body: bytes, kind: str, expected: str) -> None:
    assert await readable(Page("http://x/", 200, kind, body)) == expected


@pytest.mark.parametrize(("body", "kind"), [(b"\x89PNG\0", "image/png"), (b"a\0b", "text/plain"), (b"\0\1", "")])
async def test_a_file_that_is_not_text_is_refused(body: bytes, kind: str) -> None:
    with pytest.raises(ToolError, match="not text"):
        await readable(Page("http://x/", 200, kind, body))


async def test_a_page_built_to_take_forever_is_abandoned_and_stops_using_the_cpu() -> None:
    with pytest.raises(ToolError, match="takes too long"):
        await readable(Page("http://x/", 200, "text/html", b"<ul><li>" * 250_000), max_seconds=0.5)
    assert _readers() == []


def _readers() -> list[str]:
    """The children of this process that read a page."""
    children = [
        child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [child for child in children if "markdown.py" in Path(f"/proc/{child}/cmdline").read_text()]


async def test_a_page_nested_deeply_is_read() -> None:
    nested = Page("http://x/", 200, "text/html", b"<div>" * 20_000 + b"deep")
    assert (await readable(nested, max_seconds=300)).strip() == "deep"


async def test_an_answer_that_is_an_error_is_one_with_its_text(call: Call) -> None:
    async with page(b"<h1>Gone fishing</h1>", status="404 Not Found") as url:
        result = await fetch(url, call)
    assert (result.is_error, result.error_type) == (True, "FILE_NOT_FOUND")
    assert "status: 404" in result.text and "# Gone fishing" in result.text


async def test_a_long_page_says_that_there_is_more(call: Call) -> None:
    async with page(b"x" * 5000, "text/plain") as url:
        text = (await fetch(url, call, max_bytes=1000)).text
    assert text.endswith("x\n[the page is longer than what is fetched; this is its start]")


async def test_what_would_be_fetched_is_shown_with_its_host(place: Place) -> None:
    tool = FetchUrl(no_secret)
    intent = await tool.intent(FetchUrlArgs("HTTPS://Docs.Example.COM:443/a b".replace(" ", "%20") + "?q=1"), place)
    assert intent.kind == "fetch"
    assert intent.details == {"url": "https://docs.example.com/a%20b?q=1", "host": "docs.example.com", "method": "GET"}


@pytest.mark.parametrize("url", ["file:///etc/passwd", "gopher://x/", "ftp://x/", "data:text/plain,x", "unix:/x", "x"])
async def test_other_schemes_are_refused_before_anybody_is_asked(place: Place, call: Call, url: str) -> None:
    with pytest.raises(ToolError, match="only http and https"):
        await FetchUrl(no_secret).intent(FetchUrlArgs(url), place)
    with pytest.raises(ToolError, match="only http and https"):
        await FetchUrl(no_secret).run(FetchUrlArgs(url), call)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "169.254.169.254", "0xa9fea9fe", "2852039166", "[::1]"])
async def test_addresses_of_this_machine_and_its_network_are_not_fetched(call: Call, host: str) -> None:
    with pytest.raises(ToolError, match="not on the public internet"):
        await FetchUrl(no_secret).run(FetchUrlArgs(f"http://{host}/"), call)


@pytest.mark.parametrize(
    "url",
    [
        f"http://{SECRET}.evil.example/",
        f"http://evil.example/{SECRET}",
        f"http://evil.example/?q={SECRET}",
        f"http://evil.example/#{SECRET}",
        "http://evil.example/?q=" + "".join(f"%{byte:02x}" for byte in SECRET.encode()),
        "http://evil.example/?q=" + "".join(f"%25{byte:02X}" for byte in SECRET.encode()),
    ],
)
async def test_a_secret_in_the_address_is_refused_before_a_name_is_looked_up(
    place: Place, call: Call, url: str
) -> None:
    looked_up: list[str] = []

    async def resolve(host: str, _port: int) -> list[str]:
        looked_up.append(host)
        return ["192.0.2.1"]

    tool = FetchUrl(has_secret, Fetcher(resolve=resolve))
    for attempt in (tool.intent(FetchUrlArgs(url), place), tool.run(FetchUrlArgs(url), call)):
        with pytest.raises(ToolError, match="carry a secret") as refused:
            await attempt
        assert SECRET not in str(refused.value)
    assert looked_up == []


async def test_a_redirect_to_another_host_is_reported_and_not_followed(call: Call) -> None:
    asked: list[str] = []

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        asked.append(head.split("\r\n")[1])
        writer.write(reply(b"", f"Location: http://other.example:{port}/x", status="302 Found"))

    async with serving(answer) as port:
        with pytest.raises(ToolError, match=rf"redirects to http://other\.example:{port}/x, another host"):
            await fetch(f"http://example.com:{port}/", call)
    assert asked == [f"Host: example.com:{port}"]


async def test_a_redirect_that_carries_a_secret_out_is_not_followed(call: Call) -> None:
    async def answer(_head: str, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(b"", f"Location: /?{SECRET}", status="302 Found"))

    async with serving(answer) as port:
        with pytest.raises(ToolError, match="carry a secret"):
            await FetchUrl(has_secret, fetcher()).run(FetchUrlArgs(f"http://example.com:{port}/"), call)


async def test_a_redirect_on_the_same_site_is_followed_and_the_final_url_is_reported(call: Call) -> None:
    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        moved = f"Location: http://www.example.com:{port}/new"
        writer.write(reply(b"", moved, status="301 Moved") if "/old" in head else reply(b"here"))

    async with serving(answer) as port:
        text = (await fetch(f"http://example.com:{port}/old", call)).text
    assert text.startswith(f"url: http://www.example.com:{port}/new\nstatus: 200\n") and text.endswith("here")
