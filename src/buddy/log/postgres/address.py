"""The URL of a shared log: checked, and shown without its password.

Invariant: a password never leaves this module but as the value to be scrubbed and inside the URL for the driver.
"""

from urllib.parse import parse_qsl, unquote, urlsplit

from msgspec import Struct

from buddy.config.log_url import shown_url, user_password
from buddy.errors import UserError

SCHEMES = ("postgresql", "postgres")
EXAMPLE = "postgresql://USER@HOST:5432/DATABASE"
ESCAPE = "write special characters of a password as %23, %2F, %3F, %40 and so on"


class Address(Struct, frozen=True):
    """Where the log is: `url` for the driver, `shown` for people, `passwords` for the scrubber."""

    url: str
    shown: str
    passwords: tuple[str, ...] = ()
    names_session_attrs: bool = False


def parse_address(url: str) -> Address:
    """Check a URL as far as that is possible without connecting; UserError if it cannot be one of a log."""
    url = url.strip()
    shown = shown_url(url)
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in SCHEMES:
        raise UserError(f"{shown!r} is not the URL of a log", hint=f"use {EXAMPLE}, or no URL at all for SQLite")
    if not rest.strip("/"):
        raise UserError(f"{shown!r} names no server", hint=f"use {EXAMPLE}")
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise UserError(f"{shown!r} is not a valid URL", hint=f"use {EXAMPLE}; {ESCAPE}") from None  # it quotes the URL
    if parts.fragment:
        raise UserError(f"{shown!r} has a '#'", hint=ESCAPE)
    written = user_password(url)
    if written and "@" not in parts.netloc:
        raise UserError(f"{shown!r} has a '/' or '?' before its '@'", hint=ESCAPE)
    userinfo = parts.netloc.rpartition("@")[0]
    password = userinfo.partition(":")[2]
    found = (unquote(password), unquote(written), query.get("password", ""), query.get("sslpassword", ""))
    return Address(url, shown, tuple(dict.fromkeys(filter(None, found))), "target_session_attrs" in query)
