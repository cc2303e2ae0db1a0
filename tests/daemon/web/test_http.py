"""The console over HTTP: its files, its headers, and requests that no page of ours would send."""

import asyncio
import contextlib
import gzip
import ssl
from pathlib import Path

import pytest
import websockets

from tests.daemon.test_door import make_certificate
from tests.harness.clients import wire_client
from tests.harness.daemon import Daemon
from tests.harness.processes import ROOT
from tests.harness.web_client import WebClient, owner_link, read_answer

CONSOLE = ROOT / "src" / "buddy" / "console"
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
}


@pytest.fixture
def web(shared: Daemon) -> WebClient:
    return WebClient(shared.port())


async def test_every_file_of_the_console_is_served_as_it_is(web: WebClient) -> None:
    served = [path for path in CONSOLE.rglob("*") if path.suffix in (".html", ".js", ".css", ".svg")]
    assert CONSOLE / "index.html" in served
    for path in served:
        answer = await web.get(f"/{path.relative_to(CONSOLE)}")
        assert (answer.status, answer.body) == (200, path.read_bytes())
        packed = await web.get(f"/{path.relative_to(CONSOLE)}", Accept_Encoding="gzip, br")
        is_packed = packed.headers.get("content-encoding") == "gzip"
        assert (gzip.decompress(packed.body) if is_packed else packed.body) == path.read_bytes()
        assert is_packed or len(path.read_bytes()) < 1000
        kinds = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
        assert answer.headers["content-type"].startswith(kinds[path.suffix])
    assert (await web.get("/")).body == (CONSOLE / "index.html").read_bytes()
    for address in ("/?anything=1", "/approvals", "/session/sess_01ABC"):
        assert (await web.get(address)).body == (CONSOLE / "index.html").read_bytes()
    for address in ("/session", "/session/", "/session/a/b", "/session/..%2f..", "/approvals/x"):
        assert (await web.get(address)).status == 404


async def test_a_file_that_the_browser_has_is_not_sent_again(web: WebClient) -> None:
    for encoding in ("", "gzip"):
        first = await web.get("/index.html", Accept_Encoding=encoding)
        again = await web.get("/index.html", Accept_Encoding=encoding, If_None_Match=first.headers["etag"])
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", first.headers["etag"])
        assert first.headers["cache-control"] == "no-cache"
        assert first.headers["vary"] == "Accept-Encoding"
    assert (await web.get("/index.html", If_None_Match='"another"')).status == 200
    assert (await web.request("HEAD", "/index.html")).headers["content-length"] == str(
        len((await web.get("/index.html")).body)
    )


async def test_every_answer_has_the_security_headers(web: WebClient) -> None:
    answers = [
        await web.get("/"),
        await web.get("/index.html"),
        await web.get("/nothing"),
        await web.get("/login"),
        await web.get("/", Host="evil.example"),
        await web.post("/login", b"{"),
        await web.post("/logout"),
        await web.request("PUT", "/"),
    ]
    assert [answer.status for answer in answers] == [200, 200, 404, 401, 403, 400, 204, 405]
    for answer in answers:
        assert set(answer.headers["content-security-policy"].split("; ")) == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "server" not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        "/__init__.py",
        "/../daemon/server.py",
        "/..%2fdaemon%2fserver.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/vendor/../../version.py",
        "//etc/passwd",
        "/./index.html",
        "/index.html/",
        "/index.html%00.html",
        "/index.html/..",
        "\\..\\version.py",
        "/views",
        "http://127.0.0.1/index.html",
    ],
)
async def test_no_name_leads_out_of_the_folder(web: WebClient, path: str) -> None:
    assert (await web.get(path)).status in (400, 404)


@pytest.mark.parametrize("path", ["/", "/index.html", "/login", "/logout", "/ws", "/none"])
@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND"])
async def test_other_methods_do_nothing(web: WebClient, method: str, path: str) -> None:
    answer = await web.request(method, path)
    assert answer.status == (404 if path in ("/ws", "/none") else 405)
    assert answer.status == 404 or method not in answer.headers["allow"]


@pytest.mark.parametrize("path", ["/login", "/logout"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"},
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": "127.0.0.1"},
    ],
)
async def test_another_page_can_neither_log_in_nor_out(shared: Daemon, path: str, headers: dict[str, str]) -> None:
    web, token = WebClient(shared.port()), await owner_link(shared)
    await web.log_in(token)
    fresh = await owner_link(shared)
    assert (await web.post(path, {"token": fresh}, **headers)).status == 403
    assert (await web.get("/login", **headers)).status == 403
    assert (await web.get("/login")).status == 200
    assert (await WebClient(shared.port()).log_in(fresh)).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Origin": ""},
    ],
)
async def test_another_page_cannot_connect_with_the_cookie(shared: Daemon, headers: dict[str, str]) -> None:
    web = WebClient(shared.port())
    await web.log_in(await owner_link(shared))
    with pytest.raises(websockets.InvalidStatus) as refused:
        await web.websocket(**headers)
    assert refused.value.response.status_code == 403


async def test_other_pages_may_link_to_the_page_and_use_nothing_of_it(web: WebClient) -> None:
    link = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert (await web.get("/", **link)).status == 200
    assert (await web.get("/", **{**link, "Sec_Fetch_Dest": "iframe"})).status == 403
    assert (await web.get("/index.html", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="no-cors")).status == 403
    assert (
        await web.get("/index.html", Sec_Fetch_Site="same-origin", Origin=f"http://127.0.0.1:{web.port}")
    ).status == 200


async def test_a_cookie_that_another_page_added_hides_no_login(shared: Daemon) -> None:
    web = WebClient(shared.port())
    await web.log_in(await owner_link(shared))
    name, _, value = web.cookie.partition("=")
    web.cookie = f"a=1; {name}=att_{'0' * 26}; {name}={value}; {name}_=2"
    assert (await web.get("/login")).status == 200
    web.cookie = f"{name}=att_{'0' * 26}"
    assert (await web.get("/login")).status == 401
    with pytest.raises(websockets.InvalidStatus):
        await web.websocket()
    web.cookie = f"buddy_1={value}"
    assert (await web.get("/login")).status == 401


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"att_x"', b"{}", b'{"token": 5}', b'{"token": ""}', b"\xff\xfe", b"[" * 4000],
)
async def test_a_body_that_is_no_token_is_refused(web: WebClient, body: bytes) -> None:
    answer = await web.post("/login", body)
    assert (answer.status, list(answer.json())) == (400, ["error"])


async def test_a_body_that_is_too_large_is_refused_and_its_sender_reads_why(web: WebClient) -> None:
    answer = await web.post("/login", b" " * 5_000_000)
    assert (answer.status, list(answer.json())) == (413, ["error"])
    reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
    writer.write(web.head("POST", "/login", Transfer_Encoding="chunked"))
    for _ in range(20):
        writer.write(b"400\r\n" + b" " * 1024 + b"\r\n")
    writer.write(b"0\r\n\r\n")
    assert (await read_answer(reader)).status == 413
    writer.close()


async def test_one_connection_loads_many_files(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True, limits={"hello_seconds": 0.6}) as daemon:
        web = WebClient(daemon.port())
        reader, writer = await asyncio.open_connection("127.0.0.1", web.port)
        for _ in range(6):
            writer.write(web.head("GET", "/", Connection="keep-alive"))
            assert (await read_answer(reader)).status == 200
            await asyncio.sleep(0.3)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""  # it was idle for too long
        writer.close()


@pytest.mark.parametrize(
    "head", ["GET / HTTP/1.1\r\nHost: x\r\n", "POST /login HTTP/1.1\r\nHost: {host}\r\nContent-Length: 90\r\n\r\n"]
)
async def test_a_request_that_is_sent_bit_by_bit_is_cut(tmp_path: Path, head: str) -> None:
    with Daemon(tmp_path, web=True, limits={"hello_seconds": 0.5}) as daemon:
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port())
        writer.write(head.format(host=f"127.0.0.1:{daemon.port()}").encode())

        async def dribble() -> None:
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(b"a")
                    await writer.drain()
                    await asyncio.sleep(0.05)

        dribbling = asyncio.ensure_future(dribble())
        async with asyncio.timeout(20):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        dribbling.cancel()
        writer.close()


async def test_connections_that_only_load_files_do_not_keep_the_owner_out(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True, limits={"connections": 40, "hello_seconds": 600}) as daemon:
        web = WebClient(daemon.port())
        idle = [await asyncio.open_connection("127.0.0.1", web.port) for _ in range(60)]
        for _, writer in idle:
            writer.write(web.head("GET", "/", Connection="keep-alive"))
        assert (await web.log_in(await owner_link(daemon))).status == 200
        async with wire_client(daemon, "websocket") as owner:
            assert (await owner.ask("ping"))["pong"]
        for _, writer in idle:
            writer.close()


@pytest.mark.slow
async def test_with_tls_the_cookie_is_secure(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(cert, key)
    daemon = Daemon(tmp_path, web=True)
    daemon.flags += ["--tls-cert", str(cert), "--tls-key", str(key)]
    with daemon:
        trusted = ssl.create_default_context(cafile=str(cert))
        async with wire_client(daemon) as owner:
            url = (await owner.ask("mint_web_link"))["url"]
        assert url.startswith(f"https://127.0.0.1:{daemon.port()}/#token=")
        web = WebClient(daemon.port())
        reader, writer = await asyncio.open_connection("127.0.0.1", web.port, ssl=trusted)
        body = b'{"token": "%s"}' % url.partition("=")[2].encode()
        writer.write(web.head("POST", "/login", len(body), Origin=f"https://127.0.0.1:{web.port}") + body)
        answer = await read_answer(reader)
        writer.close()
        assert answer.status == 200
        assert "Secure" in answer.headers["set-cookie"].split("; ")
