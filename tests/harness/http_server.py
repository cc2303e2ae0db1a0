"""An HTTP server of the standard library, in a thread of the test."""

import gzip
import threading
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import Self


class ThreadedServer(ABC):
    """Listens on a free port of 127.0.0.1 from `with` to its end; a subclass answers."""

    def __init__(self) -> None:
        answer = self.answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(b"")

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                self._answer(gzip.decompress(body) if self.headers["content-encoding"] == "gzip" else body)

            def _answer(self, body: bytes) -> None:
                content = answer(self.path, body)
                self.send_response(200)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
                """Nothing is written to the test's output."""

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    @abstractmethod
    def answer(self, path: str, body: bytes) -> bytes:
        """The content for a request; it is called in the server's thread."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
