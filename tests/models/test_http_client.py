"""How a server is reached: its address, TLS, proxies, and connections that are used again."""

import asyncio
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from buddy.errors import ProviderError
from buddy.models.http import tls
from buddy.models.http.address import Address, parse_address
from buddy.models.http.client import HttpClient, Timeouts
from buddy.models.http.connection import MAX_BUFFERED
from buddy.models.http.http1 import TruncatedResponse
from buddy.models.http.pool import Pool
from buddy.models.http.tls import tls_failure
from buddy.models.wire import Wire
from tests.harness.installed import need

SECONDS = Timeouts(connect=10, idle=10)
HELLO = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
Handle = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(handle: Handle, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int, None]:
    serving: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.get_running_loop().create_task(serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*serving)


async def ask(url: str) -> bytes:
    client = HttpClient(parse_address(url), SECONDS)
    try:
        response = await client.request("GET", "/models", {})
        body = await response.read()
        response.close()
        return body
    finally:
        client.close()


def remembering(heads: list[str]) -> Handle:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(HELLO)

    return handle


@pytest.mark.parametrize(
    ("url", "address", "authority"),
    [
        ("http://h/v1/", Address("http", "h", 80, "/v1"), "h"),
        ("https://h:8443", Address("https", "h", 8443, ""), "h:8443"),
        ("https://[::1]:443/a", Address("https", "::1", 443, "/a"), "[::1]"),
        ("http://u:p%40@H", Address("http", "h", 80, "", "Basic dTpwQA=="), "h"),
        ("http://bücher.example", Address("http", "xn--bcher-kva.example", 80, ""), "xn--bcher-kva.example"),
    ],
)
def test_a_url_is_split(url: str, address: Address, authority: str) -> None:
    assert parse_address(url) == address
    assert parse_address(url).authority == authority


@pytest.mark.parametrize(
    "url", ["", "h/v1", "ftp://h", "http://", "http://h:port", "http://h/ü", "http://h/a b", "http://h\n"]
)
def test_an_invalid_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_address(url)


async def test_a_get_is_sent_again_when_the_server_drops_a_reused_connection() -> None:
    heads: list[str] = []

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(HELLO)
        await reader.read(1)  # the next request comes, and is never answered

    async with listening(once) as port:
        client = HttpClient(parse_address(f"http://127.0.0.1:{port}"), SECONDS)
        for _ in range(3):
            response = await client.request("GET", "/models", {})
            assert await response.read() == b"hi"
            response.close()
        client.close()
    assert len(heads) == 3


async def test_a_post_that_may_have_reached_the_server_is_never_sent_again() -> None:
    heads: list[str] = []

    async def drop_the_second(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(HELLO)
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())

    async with listening(drop_the_second) as port:
        client = HttpClient(parse_address(f"http://127.0.0.1:{port}"), SECONDS)
        response = await client.request("POST", "/responses", {})
        assert await response.read() == b"hi"
        response.close()
        with pytest.raises(TruncatedResponse, match="ended before"):
            await client.request("POST", "/responses", {})
        client.close()
    assert len(heads) == 2


async def test_a_connection_that_the_server_closed_is_not_written_to() -> None:
    """The event loop has not seen the end of the connection yet when the next request is sent."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = HttpClient(parse_address(f"http://127.0.0.1:{listener.getsockname()[1]}"), SECONDS)
        for _ in range(2):
            asking = asyncio.create_task(client.request("POST", "/responses", {}))
            accepted, _ = await asyncio.to_thread(listener.accept)
            assert (await asyncio.to_thread(accepted.recv, 65536)).startswith(b"POST")
            accepted.sendall(HELLO)
            response = await asking
            assert await response.read() == b"hi"
            response.close()
            accepted.close()
        client.close()


async def test_a_new_connection_that_ends_early_is_reported() -> None:
    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with listening(hang_up) as port:
        with pytest.raises(TruncatedResponse, match="ended before"):
            await ask(f"http://127.0.0.1:{port}")


async def test_a_fast_server_is_held_back_while_nothing_reads() -> None:
    size = 32 * MAX_BUFFERED

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(32):
            writer.write(b"x" * MAX_BUFFERED)
            await writer.drain()

    async with listening(flood) as port:
        client = HttpClient(parse_address(f"http://127.0.0.1:{port}"), SECONDS)
        response = await client.request("GET", "/", {})
        pieces = [piece async for piece in aiter_until_empty(response.read)]
        assert sum(map(len, pieces)) == size
        assert max(map(len, pieces)) < 2 * MAX_BUFFERED
        response.close()
        client.close()


async def aiter_until_empty(read: Callable[[], Awaitable[bytes]]) -> AsyncGenerator[bytes, None]:
    while piece := await read():
        yield piece
        await asyncio.sleep(0)


async def test_plain_requests_name_the_server_to_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[str] = []
    async with listening(remembering(heads)) as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://me:secret@127.0.0.1:{port}")
        assert await ask("http://model.test:8000/v1") == b"hi"
        monkeypatch.setenv("NO_PROXY", "model.test")
        with pytest.raises(OSError, match=r"\w"):
            await ask("http://model.test:8000/v1")
    assert heads[0].startswith("GET http://model.test:8000/v1/models HTTP/1.1\r\nhost: model.test:8000\r\n")
    assert "proxy-authorization: Basic bWU6c2VjcmV0" in heads[0]
    assert len(heads) == 1


async def test_a_proxy_that_cannot_be_used_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    with pytest.raises(OSError, match="proxy from the environment"):
        await ask("http://model.test")


async def test_certificates_are_checked_also_behind_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[str] = []
    tunnels: list[str] = []
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(*make_certificate(tmp_path))

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tunnels.append((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[0])
        inner, outer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, outer), _copy(inner, writer))

    async with listening(remembering(heads), served) as port, listening(tunnel) as proxy:
        tls.read_certificates.cache_clear()
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            await ask(f"https://localhost:{port}/v1")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
        tls.read_certificates.cache_clear()
        assert await ask(f"https://localhost:{port}/v1") == b"hi"
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{proxy}")
        assert await ask("https://model.test/v1") == b"hi"
        tls.read_certificates.cache_clear()
    assert tunnels == ["CONNECT model.test:443 HTTP/1.1"]
    assert [head.split("\r\n")[0] for head in heads] == ["GET /v1/models HTTP/1.1"] * 2


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:model.test"]
    need("openssl")
    subprocess.run([*command, *names, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


async def test_clients_share_the_connections_of_a_pool() -> None:
    accepted = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await remembering([])(reader, writer)

    async with listening(count) as port:
        address, pool = parse_address(f"http://127.0.0.1:{port}"), Pool()
        for _ in range(3):
            client = HttpClient(address, SECONDS, pool)
            response = await client.request("GET", "/models", {})
            assert await response.read() == b"hi"
            response.close()
            client.close()
        assert accepted == 1
        pool.close()


@pytest.mark.parametrize("has_tls", [True, False])
async def test_a_failure_of_tls_says_why_and_is_not_repeated(tmp_path: Path, *, has_tls: bool) -> None:
    context: ssl.SSLContext | None = None
    if has_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*make_certificate(tmp_path))

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0, ssl=context)
    async with server:
        wire = Wire(f"https://localhost:{server.sockets[0].getsockname()[1]}/v1", "key", api="completions")
        with pytest.raises(ProviderError) as failure:
            await wire.post("/chat/completions", [b"{}"])
        await wire.close()
    assert not failure.value.retryable
    why = "its certificate is not trusted: self-signed certificate" if has_tls else "it does not speak TLS"
    assert str(failure.value).endswith(f"({why})")
    assert ("SSL_CERT_FILE" if has_tls else "http://") in failure.value.hint


async def test_a_certificate_for_another_host_is_no_reason_to_trust_another_authority(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(cert, key)
    server = await asyncio.start_server(remembering([]), "127.0.0.1", 0, ssl=served)
    async with server:
        port = server.sockets[0].getsockname()[1]
        trusting = ssl.create_default_context(cafile=cert)
        with pytest.raises(ssl.SSLCertVerificationError) as refused:
            await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname="api.example.com")
    failure = tls_failure(refused.value)
    assert failure is not None
    assert "api.example.com" in failure.why
    assert failure.hint == "check the host in the URL: the certificate is for another one"


def test_an_expired_certificate_is_a_matter_of_time() -> None:
    expired = ssl.SSLCertVerificationError(1, "certificate verify failed")
    expired.verify_code, expired.verify_message = 10, "certificate has expired"
    failure = tls_failure(expired)
    assert failure is not None
    assert "clock" in failure.hint
