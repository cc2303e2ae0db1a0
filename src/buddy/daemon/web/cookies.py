"""The cookie of a login.

Invariants: scripts cannot read it; no other site's page sends it; its name has the port, because browsers give the
cookies of one port to all others of the host; behind a front, all nodes know it by one name.
"""

from collections.abc import Mapping

from buddy.daemon.listen import Listen

MAX_TRIED = 4


def cookie_name(listen: Listen) -> str:
    """Behind a front, requests of one page reach several nodes, whose ports may differ."""
    return "buddy_public" if listen.public else f"buddy_{listen.port}"


def cookies_named(headers: Mapping[str, str], name: str) -> list[str]:
    """The values of a cookie; there are several if other pages of this host have set some."""
    pairs = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
    return [value for found, _, value in pairs if found == name and value][:MAX_TRIED]


def set_cookie(listen: Listen, value: str, seconds: float) -> str:
    """The header that stores a login; for 0 seconds, the one that removes it."""
    secure = "; Secure" if listen.certificate or listen.public.startswith("https://") else ""
    return f"{cookie_name(listen)}={value}; Path=/; Max-Age={int(seconds)}; HttpOnly; SameSite=Strict{secure}"
