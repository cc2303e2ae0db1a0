"""`buddy mcp login NAME`: log in to an MCP server with a browser, here or on another machine.

Invariants: the address is printed, never opened; the answer comes to a port of this machine, or is pasted; only an
answer to this very login counts (the SDK checks its state).
"""

import asyncio
import sys

from mcp.shared.auth import AuthorizationCodeResult

from buddy.cli.mcp_check import find_servers
from buddy.cli.options import Options
from buddy.cli.settings import places_of, read_config
from buddy.errors import UserError
from buddy.terminal.escape import escape
from buddy.tools.mcp.client import connect
from buddy.tools.mcp.contract import ServerFailed, ServerStderr
from buddy.tools.mcp.definitions import ServerDefinition
from buddy.tools.mcp.oauth import Login, TokenFile, code_in

LOGIN_SECONDS = 600.0
MAX_REQUEST = 16 * 1024
PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"You are logged in. You can close this page and return to the terminal.\n"
)


def log_in(options: Options) -> int:
    places = places_of(options)
    found = find_servers(read_config(options), places, options.directory).definitions
    definition = next((one for one in found.servers if one.name == options.name), None)
    if definition is None:
        known = ", ".join(one.name for one in found.servers) or "none"
        raise UserError(f"no MCP server {options.name[:80]!r}. Available: {known}")
    if not definition.url:
        raise UserError(f"{definition.name} is a command, which needs no login", hint="log in with its own program")
    if definition.oauth is not None and definition.oauth.is_machine:
        raise UserError(
            f"{definition.name} logs in with its own credentials", hint=f"try it: buddy mcp test {definition.name}"
        )
    storage = TokenFile(places.config_dir, definition.name, definition.url)
    try:
        return asyncio.run(_log_in(definition, storage))
    except ServerFailed as error:
        raise UserError(f"could not log in to {definition.name}: {error}", exit_code=1) from error


async def _log_in(definition: ServerDefinition, storage: TokenFile) -> int:
    before = storage.read()
    storage.forget()
    waiting = _Answer()
    server = await asyncio.start_server(waiting.on_browser, "127.0.0.1", 0, limit=MAX_REQUEST)
    port: int = server.sockets[0].getsockname()[1]
    login = Login(definition.url, storage, port, _show, waiting.wait, definition.oauth)
    try:
        async with server, asyncio.timeout(LOGIN_SECONDS), connect(definition, ServerStderr(), "", login) as session:
            login.remember_server()
            count = len(session.tools)
    except BaseException:
        if before.tokens and not storage.read().tokens:
            storage.write(before)  # what worked before still may
        raise
    if not storage.read().tokens:
        print(f"{definition.name} needs no login ({count} tools)", file=sys.stderr)
    else:
        print(f"logged in to {definition.name} ({count} tools); stored in {storage.path}", file=sys.stderr)
    return 0


async def _show(url: str) -> None:
    print("Open this address in a browser:", file=sys.stderr)
    print(f"\n{escape(url)}\n", flush=True)
    print(
        "If the browser is on another machine, paste the address it ends up on here and press Enter.", file=sys.stderr
    )


class _Answer:
    """The first address that comes back: from the browser, or pasted."""

    def __init__(self) -> None:
        self._came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def wait(self) -> AuthorizationCodeResult:
        loop = asyncio.get_running_loop()
        reading = _can_read()
        if reading:
            loop.add_reader(sys.stdin.fileno(), self._on_line)
        try:
            return code_in(await self._came)
        finally:
            if reading:
                loop.remove_reader(sys.stdin.fileno())

    def _on_line(self) -> None:
        line = sys.stdin.readline()
        if not line:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())  # only the browser can answer now
        elif line.strip():
            self._take(line)

    async def on_browser(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = (await reader.readline()).decode("ascii", "replace").split()
            if len(first) > 1 and first[1].startswith("/callback?"):
                writer.write(PAGE)
                await writer.drain()
                self._take(f"http://127.0.0.1{first[1]}")
        except (OSError, ValueError):
            return
        finally:
            writer.close()

    def _take(self, url: str) -> None:
        if not self._came.done():
            self._came.set_result(url)


def _can_read() -> bool:
    try:
        return sys.stdin.fileno() >= 0 and sys.stdin.readable()
    except (OSError, ValueError):
        return False
