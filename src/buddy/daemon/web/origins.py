"""Which host names and pages the listener serves.

Invariants: a name that a foreign page could have chosen is refused, so rebinding its name to this machine gains it
nothing; a page is ours by scheme, name and port: cookies alone do not tell ports apart.
"""

from collections.abc import Mapping

from buddy.daemon.listen import Listen

OWN_FETCHES = frozenset({"same-origin", "none"})
"""`Sec-Fetch-Site` of our own page and of what a person typed; other programs do not send it."""

Reached = tuple[str, int | None] | None
"""The local address of a connection."""


class Origins:
    def __init__(self, listen: Listen) -> None:
        self._listen = listen

    def refusal(self, headers: Mapping[str, str], reached: Reached) -> str | None:
        """Why this host name or page is refused; a browser always names its page's origin, other programs need not."""
        public = self._listen.public
        names = self._names(reached)
        if headers.get("host", "") not in names | {public.partition("://")[2]} - {""}:
            return "this host name is not served here"
        origin = headers.get("origin")
        if origin is not None and origin not in {public, *(f"{self._listen.scheme}://{name}" for name in names)} - {""}:
            return "this page may not connect"
        return None

    def _names(self, reached: Reached) -> set[str]:
        # An IP address rather than a name, so a foreign page cannot have chosen it.
        address, port = reached or (self._listen.host, self._listen.port)
        own = self._listen.host
        hosts = {"127.0.0.1", "localhost", "[::1]", own, f"[{own}]", address, f"[{address}]"}
        default = 443 if self._listen.certificate else 80
        return {f"{host}:{port}" for host in hosts} | (hosts if port == default else set())


def fetch_refusal(headers: Mapping[str, str], *, is_page: bool) -> str | None:
    """Why a request that another page made is refused; any page may have a link to ours."""
    site = headers.get("sec-fetch-site")
    if site is None or site in OWN_FETCHES:
        return None
    is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return None if is_page and is_link else "this page may not send requests"
