"""Which addresses may be connected to: the public internet, by a table of our own.

Invariants: an address is checked after unwrapping every address that is embedded in another; what is in no public
range is not public; a name is judged by what it resolves to, never by its spelling.
"""

import ipaddress
import re
import socket
import unicodedata
from urllib.parse import urlsplit

from msgspec import Struct

from buddy.errors import ToolError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_CLOSED_4 = tuple(
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_OPEN_6 = ipaddress.IPv6Network("2000::/3")
_CLOSED_6 = tuple(
    ipaddress.IPv6Network(network)
    for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "2620:4f:8000::/48")
)
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


class Url(Struct, frozen=True):
    """A URL, split into its parts and normalised."""

    scheme: str
    host: str
    port: int
    target: str

    def __str__(self) -> str:
        default = 443 if self.scheme == "https" else 80
        return f"{self.scheme}://{self.netloc if self.port != default else self._host}{self.target}"

    @property
    def netloc(self) -> str:
        return f"{self._host}:{self.port}"

    @property
    def _host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_url(text: str) -> Url:
    """Parse an http or https URL; anything else is refused."""
    if len(text) > 8192 or re.search(r"[\x00-\x20\x7f\\]", text.strip()):
        raise ToolError("the URL has characters that no URL has; encode them")
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:
        raise ToolError(f"not a URL: {error}") from error
    scheme = parts.scheme.lower()
    if scheme not in ("http", "https"):
        raise ToolError(f"only http and https can be fetched, not {scheme or 'a path'}: {text[:80]!r}")
    if port == 0 or ("[" in parts.netloc and ":" not in (parts.hostname or "")):
        raise ToolError(f"not a URL: {parts.netloc[:80]!r} names no host and port")
    if "@" in parts.netloc:
        raise ToolError("the URL carries a user name or password; leave them out")
    host = normal_host(parts.hostname or "")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Url(scheme, host, port or (443 if scheme == "https" else 80), _ascii(target))


def normal_host(host: str) -> str:
    """A host name in canonical form; numeric hosts in any notation become IP addresses."""
    name = unicodedata.normalize("NFKC", host).strip().rstrip(".").lower()
    if not name:
        raise ToolError("the URL has no host")
    if ":" in name:
        return str(ipaddress.IPv6Address(name.partition("%")[0]))
    if re.fullmatch(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}", name):
        try:
            return socket.inet_ntoa(socket.inet_aton(name))
        except OSError as error:
            raise ToolError(f"{host[:80]!r} is not an address") from error
    try:
        spelled = name.encode("idna").decode()
    except UnicodeError as error:
        raise ToolError(f"{host[:80]!r} is not a host name") from error
    if not re.fullmatch(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*", spelled) or len(spelled) > 253:
        raise ToolError(f"{host[:80]!r} is not a host name")
    return spelled


def is_public(address: Address) -> bool:
    """Whether this is an address of the public internet."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in _CLOSED_4)
    if address in _MAPPED:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _OPEN_6 and not any(address in network for network in _CLOSED_6)


def refuse_closed(host: str, found: list[str]) -> None:
    """Raise if any address of a name is not public: a name with both kinds cannot be trusted."""
    for text in found:
        address = ipaddress.ip_address(text.partition("%")[0])
        if not is_public(address):
            raise ToolError(f"{host} is {address}, which is not on the public internet; it is not fetched")


def _ascii(target: str) -> str:
    from urllib.parse import quote

    return quote(target, safe="/?&=%:@!$'()*+,;~-._[]#")
