"""Where a server is, and the proxy on the way to it.

Invariants: the proxy is what `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say; a server on this machine is
always reached directly.
"""

import base64
import os
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PORTS = {"http": 80, "https": 443}


class Address(Struct, frozen=True):
    """A server; `path` is the prefix of every request's path, `login` an `authorization` header from the URL."""

    scheme: str
    host: str
    port: int
    path: str
    login: str = ""

    @property
    def authority(self) -> str:
        return self.bracketed_host if self.port == _PORTS[self.scheme] else f"{self.bracketed_host}:{self.port}"

    @property
    def bracketed_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(url: str) -> Address:
    """Split a URL; ValueError if it is not an http(s) URL with a host. Its message continues the URL's name."""
    if not url.isprintable() or " " in url:
        raise ValueError("contains characters that are not allowed in a URL")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname or ""
        host = host if host.isascii() else host.encode("idna").decode()
    except ValueError as error:
        raise ValueError(f"is not a valid URL ({error})") from error
    if parts.scheme not in _PORTS:
        raise ValueError("must start with http:// or https://")
    if not host:
        raise ValueError("has no host")
    path = parts.path.rstrip("/")
    if not path.isascii():
        raise ValueError("has non-ASCII characters in its path; percent-encode them")
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], path, _basic_login(parts))


def find_proxy(address: Address) -> Address | None:
    """The proxy that the environment names for this server; OSError if it can't be used."""
    if address.host in _LOOPBACK or not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # heavy, and few environments have a proxy

    proxies = getproxies()
    url = proxies.get(address.scheme) or proxies.get("all")
    if not url or proxy_bypass(address.host):
        return None
    try:
        proxy = parse_address(url if "://" in url else f"http://{url}")
    except ValueError as error:
        raise OSError(f"can't use the proxy from the environment: it {error}") from error
    if proxy.scheme != "http":
        raise OSError("can't use the proxy from the environment: only http:// proxies are supported")
    return proxy


def _basic_login(parts: SplitResult) -> str:
    if parts.username is None:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
