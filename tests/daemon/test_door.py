"""WebSocket admission: which clients are accepted, and what is not logged about the others."""

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
import websockets

from buddy.client.client import Client
from buddy.client.websocket import connect_websocket
from tests.harness.clients import start, wire_client
from tests.harness.daemon import Daemon
from tests.harness.installed import need
from tests.harness.wire_client import WebSocketTransport, WireClient

KEY = "dGhlIHNhbXBsZSBub25jZQ=="


async def knock(daemon: Daemon, *headers: str, path: str = "/", host: str | None = "ours") -> int:
    """The HTTP status of an upgrade with these headers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port())
    named = [] if host is None else [f"Host: 127.0.0.1:{daemon.port()}" if host == "ours" else f"Host: {host}"]
    lines = [
        f"GET {path} HTTP/1.1",
        *named,
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {KEY}",
        *headers,
    ]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    answer = await reader.readline()
    writer.close()
    return int(answer.split()[1])


def bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
async def test_a_foreign_page_is_refused_even_with_the_token(shared: Daemon, origin: str) -> None:
    assert await knock(shared, bearer(shared.token()), f"Origin: {origin}") == 403


async def test_our_own_page_and_programs_are_accepted(shared: Daemon) -> None:
    assert await knock(shared, bearer(shared.token()), f"Origin: http://localhost:{shared.port()}") == 101
    assert await knock(shared, bearer(shared.token())) == 101
    assert await knock(shared, f"Sec-WebSocket-Protocol: push.runtime.v1, bearer.{shared.token()}") == 101


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "127.0.0.1:1", ""])
async def test_a_rebound_host_name_is_refused(shared: Daemon, host: str) -> None:
    assert await knock(shared, bearer(shared.token()), host=host) in (400, 403)


async def test_the_name_that_a_front_was_given_is_accepted(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.flags = ["--listen", "127.0.0.1:0"]
    daemon.start(BUDDY_HOST="Buddy.example.com")
    try:
        assert await knock(daemon, bearer(daemon.token()), host="buddy.example.com") in (101, 401)
        assert await knock(daemon, bearer(daemon.token()), host="evil.example") == 403
    finally:
        daemon.stop()


async def test_a_missing_host_is_refused(shared: Daemon) -> None:
    assert await knock(shared, bearer(shared.token()), host=None) in (400, 403)


@pytest.mark.parametrize(
    "header",
    ["X-Nothing: 1", "Authorization: Bearer", "Authorization: Basic YTpi", "Sec-WebSocket-Protocol: bearer."],
)
async def test_a_connection_without_a_token_is_refused(shared: Daemon, header: str) -> None:
    assert await knock(shared, header) == 401


async def test_a_token_in_the_url_does_not_count(shared: Daemon) -> None:
    token = shared.token()
    assert await knock(shared, path=f"/?token={token}") == 401
    assert await knock(shared, path=f"/{token}") in (403, 404)


async def test_guessing_is_slowed_down_and_leaves_no_trace(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True) as daemon:
        began = time.monotonic()
        guesses = [f"att_guess{number:032}" for number in range(60)]
        assert await asyncio.gather(*(knock(daemon, bearer(guess)) for guess in guesses)) == [401] * 60
        assert time.monotonic() - began >= 1.0
        assert await knock(daemon, path=f"/?token={guesses[0]}") == 401
        assert await knock(daemon, path=f"/?token={daemon.token()}") == 401
        assert await knock(daemon, bearer(daemon.token())) == 101
        async with wire_client(daemon, "websocket") as client:
            await start(client, daemon)
            driver = client.token
        daemon.kill()
        daemon.start()
        # After a restart the runtime knows the token by its hash alone, and could not scrub it.
        assert await knock(daemon, path=f"/?token={driver}") == 401
        assert await knock(daemon, bearer(driver)) == 101
        for token in (*guesses, daemon.token(), driver):
            assert token[4:] not in daemon.log()
            assert token[4:] not in daemon.output()
        assert " ERROR " not in daemon.log()


async def test_a_half_written_token_file_admits_no_client(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, web=True)
    daemon.state_dir.mkdir(mode=0o700)
    (daemon.state_dir / "web-token").write_text("")
    with daemon:
        assert await knock(daemon, "Sec-WebSocket-Protocol: bearer.") == 401
        assert len(daemon.token()) > 40
        assert await knock(daemon, bearer(daemon.token())) == 101


async def test_clients_that_never_ask_are_disconnected(tmp_path: Path) -> None:
    with Daemon(tmp_path, web=True, limits={"hello_seconds": 0.3}) as daemon:
        silent = [await asyncio.open_connection("127.0.0.1", daemon.port()) for _ in range(20)]
        silent[0][1].write(b"GET / HTTP/1.1\r\nHost:")
        for reader, writer in silent:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
        unspoken = await WebSocketTransport.connect(f"ws://127.0.0.1:{daemon.port()}", daemon.token())
        await WireClient(unspoken).ended()


@pytest.mark.parametrize(("size", "codes"), [(6000, ["FRAME_TOO_LARGE"]), (60_000, [])])
async def test_a_message_that_is_too_large_ends_the_connection(tmp_path: Path, size: int, codes: list[str]) -> None:
    with Daemon(tmp_path, web=True, limits={"frame": 5000}) as daemon:
        async with wire_client(daemon, "websocket") as client, wire_client(daemon, "websocket") as bystander:
            assert isinstance(client.transport, WebSocketTransport)
            await client.transport.send(b" " * size)
            answers: list[str] = []
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    answers.append(json.loads(await client.transport.connection.recv())["error"]["code"])
            assert answers == codes
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009
            assert (await bystander.ask("ping"))["pong"]


@pytest.mark.slow
async def test_with_certificate_files_it_speaks_tls(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make_certificate(cert, key)
    daemon = Daemon(tmp_path, web=True)
    daemon.flags += ["--tls-cert", str(cert), "--tls-key", str(key)]
    with daemon:
        trusted = ssl.create_default_context(cafile=str(cert))
        url = f"wss://localhost:{daemon.port()}/"
        async with Client(await connect_websocket(url, daemon.token(), ssl=trusted), "cli") as client:
            assert client.runtime is not None
        with pytest.raises(OSError, match="answered 401"):
            await connect_websocket(url, "att_wrong", ssl=trusted)
        with socket.create_connection(("127.0.0.1", daemon.port())) as bare:
            bare.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert b"HTTP/1.1 101" not in bare.recv(1000)


def test_certificates_that_cannot_be_read_are_reported_at_once(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, web=True)
    (tmp_path / "cert.pem").write_text("not a certificate")
    daemon.flags += ["--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "missing.pem")]
    assert daemon.launch().wait(20) == 64
    assert "Traceback" not in daemon.output()
    assert "hint:" in daemon.output()


def make_certificate(cert: Path, key: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    alternative = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    need("openssl")
    subprocess.run([*command, *alternative, "-keyout", key, "-out", cert], check=True, capture_output=True)
