"""Where the WebSocket listens: on this machine, unless remote access is allowed explicitly."""

import ipaddress
from pathlib import Path

from msgspec import Struct

from buddy.errors import UserError

TOKEN_FILE = "web-token"  # noqa: S105 - a name, not a token
"""The file of the state directory with the owner's token."""


class Listen(Struct, frozen=True):
    """Certificate and key make it TLS. `public` is the origin of a front, for browsers that come through it."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    public: str = ""

    @property
    def scheme(self) -> str:
        return "https" if self.certificate else "http"

    @property
    def url(self) -> str:
        """The address of the page, for this machine if it listens on all addresses."""
        host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - compared, not bound
        return f"{self.scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/"


def parse_public(url: str, host: str = "") -> str:
    """The origin of an address as a browser writes it: in lower case, without the port that the scheme implies.

    `host` is the name that the front was given; it beats the configured address, so that one setting is enough.
    """
    if host:
        url = host if "://" in host else f"https://{host}"
    origin = url.lower().rstrip("/")
    implied = ":443" if origin.startswith("https://") else ":80"
    return origin.removesuffix(implied)


def parse_listen(text: str, *, certificate: str | None, key: str | None, allow_remote: bool) -> Listen:
    """Read `PORT` or `HOST:PORT`; an address that other machines can reach needs `allow_remote`."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdigit() or not 0 <= int(port) <= 65535:
        raise UserError(f"--listen {text} is not an address", hint="use HOST:PORT, for example 127.0.0.1:7878")
    if (certificate is None) != (key is None):
        raise UserError("TLS needs both --tls-cert and --tls-key")
    if not is_loopback(host) and not allow_remote:
        raise UserError(
            f"--listen {host} can be reached from other machines",
            hint="use 127.0.0.1 and an ssh tunnel, or pass --allow-remote if that is intended",
        )
    listen = Listen(host, int(port), Path(certificate) if certificate else None, Path(key) if key else None)
    _check_certificate(listen)
    return listen


def address_of(listen: Listen, port: int) -> str:
    """The URL of the WebSocket; `port` is the one that was bound."""
    host = f"[{listen.host}]" if ":" in listen.host else listen.host
    return f"{'wss' if listen.certificate else 'ws'}://{host}:{port}"


def _check_certificate(listen: Listen) -> None:
    """Report unusable files before anything is started."""
    if listen.certificate is None or listen.key is None:
        return
    import ssl

    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(listen.certificate, listen.key)
    except OSError as error:
        raise UserError(
            f"cannot use {listen.certificate} with {listen.key}: {error.strerror or error}",
            hint="--tls-cert and --tls-key name PEM files that belong together",
        ) from error


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
