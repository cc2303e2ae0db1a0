"""A fetched page as text for a model.

Invariants: HTML becomes Markdown of its main content, without scripts, styles and navigation; what is not text is
refused; converting a page that takes too long is aborted, and no process of it is left.
"""

import asyncio
import codecs
import contextlib
import re
import sys
from pathlib import Path

from buddy.errors import ToolError
from buddy.tools.fetch.client import Page

MAX_SECONDS = 10.0
MAX_TEXT = 1024 * 1024
PROGRAM = Path(__file__).with_name("markdown.py")
HTML = ("text/html", "application/xhtml+xml")
TEXTS = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml)|application/(?:x-)?(?:ndjson|javascript|yaml|sh|tex|sql)"
)

# Encodings used on the web. Other codec names are not text encodings; decoding with them may fail or exhaust memory.
CHARSETS = re.compile(
    r"utf-(?:8|8-sig|16|16-le|16-be|32|32-le|32-be)|ascii|iso8859-\d+|cp\d+|koi8-[rtu]|mac-[a-z]+|tis-620|johab|hz"
    r"|gb2312|gbk|gb18030|big5(?:hkscs)?|euc_[a-z0-9_]+|shift_jis[a-z0-9_]*|iso2022_[a-z0-9_]+"
)


async def readable(page: Page, max_seconds: float = MAX_SECONDS) -> str:
    """The text of a page; ToolError if it has none."""
    kind = page.content_type.partition(";")[0].strip().lower()
    if kind in HTML or (not kind and page.body.lstrip()[:1] == b"<"):
        return await _markdown(page, max_seconds)
    if (kind and not TEXTS.fullmatch(kind)) or b"\0" in page.body[:8192]:
        raise ToolError(f"{page.url} is {kind or 'binary'}, not text; only text, HTML, JSON and the like can be read")
    return page.body.decode(_charset(page) or "utf-8", "replace")


async def _markdown(page: Page, max_seconds: float) -> str:
    # `-I`: neither the directory nor the environment affects what is imported.
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(PROGRAM), _charset(page) or ""),
        cwd="/",
        env={},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(max_seconds):
            text = await _talk(program, page.body)
    except TimeoutError:
        raise ToolError(f"{page.url} is built so that reading it takes too long; it was given up") from None
    finally:
        if program.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
        await program.wait()
    return text.decode("utf-8", "replace")


async def _talk(program: asyncio.subprocess.Process, html: bytes) -> bytes:
    if program.stdin is None or program.stdout is None:
        raise ToolError("the page could not be read")
    program.stdin.write(html)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        await program.stdin.drain()
    program.stdin.close()
    text = bytearray()
    while len(text) < MAX_TEXT and (chunk := await program.stdout.read(64 * 1024)):
        text += chunk
    if len(text) < MAX_TEXT and await program.wait() != 0:
        raise ToolError("the page's HTML could not be understood")
    return bytes(text[:MAX_TEXT])


def _charset(page: Page) -> str | None:
    """The encoding that the server declares, else UTF-8 if it decodes; None if the page itself may declare one."""
    found = re.search(r"charset=[\"']?([\w.:-]{1,40})", page.content_type, re.IGNORECASE)
    with contextlib.suppress(LookupError):
        if found is not None and CHARSETS.fullmatch(name := codecs.lookup(found[1]).name):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(page.body, final=False)
    except UnicodeDecodeError:
        return None
    return "utf-8"
