"""Embeddings from a server: the request it gets, and what becomes of a bad answer."""

import json
import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from buddy.errors import ProviderError
from buddy.memory.remote import RemoteEmbedder

Answer = Callable[[dict[str, Any]], tuple[int, object]]


class Server:
    """A loopback server that answers as scripted and records its requests."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None, dict[str, Any]]] = []
        self.answer: Answer = lambda asked: (
            200,
            {"data": [{"index": n, "embedding": [float(n), 4.0]} for n in reversed(range(len(asked["input"])))]},
        )
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.asked.append((self.path, self.headers["authorization"], asked))
                code, body = server.answer(asked)
                content = json.dumps(body).encode()
                self.send_response(code)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
                """Nothing is written to the test's output."""

        self.http = HTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/v1"


@pytest.fixture
def server() -> Generator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


def test_texts_are_sent_in_one_request_and_come_back_in_order(server: Server) -> None:
    remote = RemoteEmbedder(server.url, "key-1", "small")
    rows = remote.embed(["zero", "one", "two"])
    remote.close()
    assert server.asked == [
        ("/v1/embeddings", "Bearer key-1", {"model": "small", "input": ["zero", "one", "two"]}),
    ]
    assert rows[0].tolist() == [0.0, 1.0]
    assert [round(float((row * row).sum()), 5) for row in rows] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "answer",
    [
        (500, {"error": "no"}),
        (200, {"unexpected": True}),
        (200, {"data": []}),
        (200, {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}),
    ],
)
def test_a_bad_answer_is_an_error_that_says_so(server: Server, answer: tuple[int, object]) -> None:
    server.answer = lambda _: answer
    remote = RemoteEmbedder(server.url, "", "small")
    with pytest.raises(ProviderError, match="small"):
        remote.embed(["zero", "one"])
    remote.close()


def test_a_server_that_is_gone_is_an_error(server: Server) -> None:
    url = server.url
    server.http.server_close()
    remote = RemoteEmbedder(url, "", "small")
    with pytest.raises(ProviderError, match="no embeddings"):
        remote.embed(["zero"])
    remote.close()
