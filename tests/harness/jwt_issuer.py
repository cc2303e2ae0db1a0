"""An issuer of JSON Web Tokens: it signs them, and writes or serves its public keys."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

ISSUER = "https://issuer.test/"
AUDIENCE = "buddy"


class Issuer:
    def __init__(self, key_id: str = "key-1") -> None:
        self.key_id = key_id
        self._key = ec.generate_private_key(ec.SECP256R1())

    def token(self, user: str = "alice", seconds: float = 600, **claims: Any) -> str:
        """A token of this user; `claims` replace what it would say, or remove it if they are None."""
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": user, "exp": int(time.time() + seconds), **claims}
        kept = {name: value for name, value in said.items() if value is not None}
        return jwt.encode(kept, self._key, "ES256", {"kid": self.key_id})

    def jwks(self) -> dict[str, Any]:
        public = json.loads(ECAlgorithm.to_jwk(self._key.public_key()))
        return {"keys": [{**public, "kid": self.key_id, "use": "sig", "alg": "ES256"}]}

    def write_keys(self, path: Path) -> Path:
        path.write_text(json.dumps(self.jwks()))
        return path


class KeyServer:
    """Serves the public keys of an issuer; use it as `with KeyServer(issuer) as server`."""

    def __init__(self, issuer: Issuer) -> None:
        self.issuer = issuer
        self.reads = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.reads += 1
                body = json.dumps(server.issuer.jwks()).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
                """Nothing is written to the test's output."""

        self._http = HTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/keys"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
