"""An OAuth server on loopback for tests: device flow, PKCE, refresh and revocation, over real HTTP.

    with OAuthServer() as server:
        issuer = find_issuer(server.url, "client")
        ...
        assert server.count("refresh_token") == 1

With `standard=True` it publishes metadata and speaks RFC 8628; else it has the paths of OpenAI's. `polls` are the
answers to the next questions of a device (`pending`, `slow_down`, `access_denied`, `expired_token`); after them it is
granted. Refresh tokens work once: each refresh returns a new one and revokes the old one.
"""

import base64
import hashlib
import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

Fields = dict[str, str]
Reply = tuple[int, dict[str, Any]]


class OAuthServer:
    def __init__(self, *, standard: bool = True, polls: Sequence[str] = (), lifetime: int = 3600) -> None:
        self.standard = standard
        self.polls = list(polls)
        self.lifetime = lifetime
        self.denies = False
        self.is_down = False
        self.requests: list[tuple[str, Fields]] = []
        self.access_tokens: list[str] = []
        self.refresh_token = ""
        self.hold: threading.Event | None = None
        self.refreshing = threading.Event()
        self._challenges: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.hold is not None:
            self.hold.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def count(self, grant: str) -> int:
        """How often tokens were asked for in this way."""
        return sum(fields.get("grant_type", "").endswith(grant) for _, fields in self.requests)

    def issue(self) -> dict[str, Any]:
        """New tokens, in place of the last ones."""
        number = len(self.access_tokens) + 1
        self.access_tokens.append(f"access-token-{number}")
        self.refresh_token = f"refresh-token-{number}"
        return {
            "access_token": self.access_tokens[-1],
            "refresh_token": self.refresh_token,
            "expires_in": self.lifetime,
            "token_type": "Bearer",
        }

    def answer(self, path: str, fields: Fields) -> Reply:
        if self.is_down:
            return 503, {}
        if path == "/oauth/token" and fields.get("grant_type") == "refresh_token":
            self.refreshing.set()
            if self.hold is not None:
                self.hold.wait()
        with self._lock:
            self.requests.append((path, fields))
            return self._route(path, fields)

    def authorize(self, query: Fields) -> str:
        """What a browser is sent to after the person decided."""
        with self._lock:
            self.requests.append(("/oauth/authorize", query))
            if self.denies:
                return f"{query['redirect_uri']}?{urlencode({'error': 'access_denied', 'state': query['state']})}"
            code = f"code-{len(self._challenges) + 1}"
            self._challenges[code] = query["code_challenge"], query["redirect_uri"]
            return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def metadata(self) -> Reply:
        if not self.standard:
            return 404, {}
        return 200, {
            "issuer": self.url,
            "token_endpoint": f"{self.url}/oauth/token",
            "authorization_endpoint": f"{self.url}/oauth/authorize",
            "device_authorization_endpoint": f"{self.url}/device",
            "revocation_endpoint": f"{self.url}/oauth/revoke",
        }

    def _route(self, path: str, fields: Fields) -> Reply:
        match path:
            case "/device":
                page = f"{self.url}/activate"
                return 200, {
                    "device_code": "device-1",
                    "user_code": "ABCD-EFGH",
                    "verification_uri": page,
                    "verification_uri_complete": f"{page}?code=ABCD-EFGH",
                    "expires_in": 600,
                    "interval": 2,
                }
            case "/api/accounts/deviceauth/usercode":
                return 200, {"device_auth_id": "device-1", "user_code": "ABCD-EFGH", "interval": "2"}
            case "/api/accounts/deviceauth/token":
                return self._poll_openai()
            case "/oauth/revoke":
                self.refresh_token = ""
                return 200, {}
            case "/oauth/token":
                return self._token(fields)
            case _:
                return 404, {}

    def _poll_openai(self) -> Reply:
        if self.polls:
            return (403 if self.polls.pop(0) == "pending" else 400), {"error": {"code": "access_denied"}}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(b"the-verifier").digest()).rstrip(b"=").decode()
        self._challenges["device-code"] = challenge, f"{self.url}/deviceauth/callback"
        return 200, {"authorization_code": "device-code", "code_verifier": "the-verifier"}

    def _token(self, fields: Fields) -> Reply:
        match fields["grant_type"]:
            case "refresh_token":
                is_right = fields["refresh_token"] == self.refresh_token
                return (200, self.issue()) if is_right else (400, {"error": "invalid_grant"})
            case "authorization_code":
                return self._exchange(fields)
            case _ if self.polls:
                word = self.polls.pop(0)
                return 400, {"error": "authorization_pending" if word == "pending" else word}
            case _:
                return 200, self.issue()

    def _exchange(self, fields: Fields) -> Reply:
        challenge, redirect = self._challenges.pop(fields["code"], ("", ""))
        proof = (
            base64.urlsafe_b64encode(hashlib.sha256(fields["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        )
        if (proof, fields["redirect_uri"]) != (challenge, redirect):
            return 400, {"error": "invalid_grant", "error_description": "the verifier or the address is wrong"}
        return 200, self.issue()


class _Server(ThreadingHTTPServer):
    owner: OAuthServer
    daemon_threads = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Buffered: a body sent apart from its headers would be held back until the client had acknowledged those.
    wbufsize = -1
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - the base class knows only any server

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/oauth/authorize":
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self.send_response(302)
            self.send_header("location", self.server.owner.authorize(query))
            self.send_header("content-length", "0")
            self.end_headers()
        elif parts.path.startswith("/.well-known/"):
            self._send(*self.server.owner.metadata())
        else:
            self._send(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", "0")))
        if self.headers.get_content_type() == "application/json":
            fields: Fields = json.loads(body)
        else:
            fields = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        self._send(*self.server.owner.answer(self.path, fields))

    def _send(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass
