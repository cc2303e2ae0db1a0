"""The console over HTTP: its files, and logging in and out.

Invariants: every response has the security headers; what needs no login holds no data; a request that another page
made changes nothing; bodies are bounded, and wrong tokens are slowed down without keeping anybody else out.
"""

import asyncio
import contextlib
import json
import logging
import time

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from buddy.daemon.limits import Rate
from buddy.daemon.listen import Listen
from buddy.daemon.web.cookies import cookie_name, cookies_named, set_cookie
from buddy.daemon.web.identity import Identities, Identity
from buddy.daemon.web.logins import LOGIN_SECONDS
from buddy.daemon.web.origins import Origins, fetch_refusal
from buddy.daemon.web.static_files import INDEX, StaticFile, file_of

MAX_BODY = 4096
DISCARD_SECONDS = 1.0
GUESSES_PER_SECOND, GUESSES_AT_ONCE = 1.0, 10
GUESS_SECONDS = 1.0
"""How long a wrong token waits for its answer once there were too many."""

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

log = logging.getLogger("buddy.web")


class Console:
    """An ASGI application."""

    def __init__(self, listen: Listen, files: dict[str, StaticFile], identities: Identities, origins: Origins) -> None:
        self._listen = listen
        self._files = files
        self._identities = identities
        self._origins = origins
        self._guesses = Rate(GUESSES_PER_SECOND, GUESSES_AT_ONCE, time.monotonic)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = self._refuse(request) or await self._answer(request)
        except ClientDisconnect:
            return
        response.headers.update(HEADERS)
        response.headers.setdefault("Cache-Control", "no-store")
        await response(scope, receive, send)

    def _refuse(self, request: Request) -> Response | None:
        is_page = file_of(request.scope["path"]) == INDEX and request.method in ("GET", "HEAD")
        refusal = self._origins.refusal(request.headers, request.scope.get("server"))
        refusal = refusal or fetch_refusal(request.headers, is_page=is_page)
        if refusal is None:
            return None
        log.info("refused a request: %s", refusal)
        return JSONResponse({"error": refusal}, 403)

    async def _answer(self, request: Request) -> Response:
        match request.scope["path"], request.method:
            case "/login", "POST":
                return await self._log_in(request)
            case "/login", "GET":
                return await self._who(request)
            case "/logout", "POST":
                return await self._log_out(request)
            case ("/login" | "/logout") as path, _:
                return _not_allowed("GET, POST" if path == "/login" else "POST")
            case path, method if file_of(path) in self._files:
                is_read = method in ("GET", "HEAD")
                return _static(request, self._files[file_of(path)]) if is_read else _not_allowed("GET, HEAD")
            case _:
                return PlainTextResponse("not found\n", 404)

    async def _log_in(self, request: Request) -> Response:
        try:
            token = _token_in(await _read_body(request))
        except ValueError as error:
            return JSONResponse({"error": str(error)}, 413 if isinstance(error, _TooLarge) else 400)
        made = await self._identities.log_in(token)
        if made is None:
            return await self._refuse_token()
        value, identity = made
        log.info("logged in as %s", identity.describe()["role"])
        response = JSONResponse(identity.describe())
        response.headers["Set-Cookie"] = set_cookie(self._listen, value, LOGIN_SECONDS)
        return response

    async def _refuse_token(self) -> Response:
        if self._guesses.take():
            return JSONResponse({"error": "this link was used before, has expired or is not valid"}, 401)
        await asyncio.sleep(GUESS_SECONDS)
        return JSONResponse({"error": "too many wrong tokens; try again later"}, 429, {"Retry-After": "10"})

    async def _who(self, request: Request) -> Response:
        identity = await self._identity_of(request)
        if identity is None:
            return JSONResponse({"error": "not logged in; open a new link from buddy web"}, 401)
        return JSONResponse(identity.describe())

    async def _log_out(self, request: Request) -> Response:
        identity = await self._identity_of(request)
        if identity is not None:
            await self._identities.log_out(identity)
        response = Response(status_code=204)
        response.headers["Set-Cookie"] = set_cookie(self._listen, "", 0)
        return response

    async def _identity_of(self, request: Request) -> Identity | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and (user := await self._identities.by_user_token(token.strip())) is not None:
            return user  # a front that knows its users sends this with every request
        return await self._identities.by_cookies(cookies_named(request.headers, cookie_name(self._listen)))


class _TooLarge(ValueError):
    pass


async def _read_body(request: Request) -> bytes:
    """The body; what exceeds the limit is discarded for a moment, because closing too soon would hide the answer."""
    size, kept = 0, list[bytes]()
    is_long = int(request.headers.get("content-length", "0")) > MAX_BODY
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(DISCARD_SECONDS if is_long else None) as limit:
            async for part in request.stream():
                size += len(part)
                if size <= MAX_BODY:
                    kept.append(part)
                elif not is_long:
                    is_long = True
                    limit.reschedule(asyncio.get_running_loop().time() + DISCARD_SECONDS)
    if is_long:
        raise _TooLarge(f"a request may have at most {MAX_BODY} bytes")
    return b"".join(kept)


def _token_in(body: bytes) -> str:
    try:
        token = json.loads(body)["token"]
    except (ValueError, LookupError, TypeError, RecursionError):
        token = None
    if not isinstance(token, str) or not token:
        raise ValueError('expected {"token": "att_…"}')
    return token


def _static(request: Request, file: StaticFile) -> Response:
    takes_gzip = "gzip" in request.headers.get("accept-encoding", "")
    is_compressed = takes_gzip and file.compressed is not None
    headers = {
        "Cache-Control": "no-cache",
        "ETag": file.etags[is_compressed],
        "Vary": "Accept-Encoding",
        "Content-Type": file.content_type,
    }
    known = request.headers.get("if-none-match", "")
    if any(tag in known for tag in file.etags):
        return Response(status_code=304, headers=headers)
    if is_compressed:
        headers["Content-Encoding"] = "gzip"
    return Response(file.compressed if is_compressed else file.body, headers=headers)


def _not_allowed(allowed: str) -> Response:
    return PlainTextResponse("method not allowed\n", 405, {"Allow": allowed})
