"""An issuer of JSON Web Tokens: it signs them, and writes or serves its public keys."""

import json
import time
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from tests.harness.http_server import ThreadedServer

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

    def settings(self, path: Path) -> str:
        """What a configuration says to accept its tokens; the keys are written to the path."""
        source = f'issuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks_file = "{self.write_keys(path)}"'
        return f'[auth]\nmode = "jwt"\n{source}\n'

    def write_keys(self, path: Path) -> Path:
        path.write_text(json.dumps(self.jwks()))
        return path


class KeyServer(ThreadedServer):
    """Serves the public keys of an issuer; use it as `with KeyServer(issuer) as server`."""

    def __init__(self, issuer: Issuer) -> None:
        super().__init__()
        self.issuer = issuer
        self.reads = 0

    def answer(self, path: str, body: bytes) -> bytes:  # noqa: ARG002 - whatever is asked
        self.reads += 1
        return json.dumps(self.issuer.jwks()).encode()
