"""The keys that clients sent for their sessions.

Invariants: they are kept in memory only, and each is registered with the scrubber before anything else sees it; what is
recorded of an endpoint has none. A key for one server is never used for another.
"""

import asyncio
from collections.abc import Callable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from buddy.config.environment import override, without_endpoint
from buddy.config.server_address import password_in, without_credentials
from buddy.protocol.shapes import Endpoint


class SessionKeys(Struct):
    """The keys of one session: by the server they are for ("" is the session's own), and by variable."""

    keys: dict[str, str] = field(default_factory=dict[str, str])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    urls: dict[str, str] = field(default_factory=dict[str, str])
    """Servers whose address has a password: as it is recorded → complete."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class ClientKeys:
    def __init__(self, env: Mapping[str, str], register: Callable[[str], None]) -> None:
        self._env = env
        self._own = without_endpoint(env)
        self.hide = register
        self._sessions: dict[str, SessionKeys] = {}

    def register(self, endpoint: Endpoint) -> None:
        """Hide what is secret in an endpoint, wherever it appears."""
        password = password_in(endpoint.base_url or "")
        for secret in (endpoint.api_key or "", password, *(endpoint.keys or {}).values()):
            self.hide(secret)

    def take(self, session_id: str, endpoint: Endpoint) -> Endpoint:
        """Keep what is secret in an endpoint, and return the rest."""
        self.register(endpoint)
        server, password = _shown(endpoint.base_url), password_in(endpoint.base_url or "")
        if endpoint.api_key or endpoint.keys or password:
            held = self._sessions.setdefault(session_id, SessionKeys())
            if password:
                held.urls[server or ""] = endpoint.base_url or ""
            if endpoint.api_key:
                held.keys[server or ""] = endpoint.api_key
            held.variables.update(endpoint.keys or {})
            held.changed.set()
        return replace(endpoint, base_url=server, api_key=None, keys=None, keyed=False)

    def environment(self, session_id: str, endpoint: Endpoint | None, *, with_keys: bool = True) -> Mapping[str, str]:
        """The variables that a session's model is resolved with: its client's, or the runtime's own."""
        if endpoint is None:
            return self._env
        held = self._sessions.get(session_id) if with_keys else None
        server = _shown(endpoint.base_url) or ""
        named = {
            "BUDDY_BASE_URL": (held and held.urls.get(server)) or endpoint.base_url or "",
            "BUDDY_MODEL": endpoint.model or "",
            "BUDDY_API": endpoint.api or "",
            "BUDDY_CONTEXT_LIMIT": str(endpoint.context_limit or ""),
        }
        key = endpoint.api_key or (held and (held.keys.get(server) or held.keys.get(""))) or ""
        if not key and with_keys and server == (_shown(override(self._env, "BASE_URL") or None) or ""):
            key = override(self._env, "API_KEY")  # the runtime was started with the same endpoint
        variables = {**(held.variables if held else {}), **(endpoint.keys or {})}
        if key or server:
            variables["BUDDY_API_KEY"] = key
        return {**self._own, **variables, **named}

    def has_key(self, session_id: str, endpoint: Endpoint) -> bool:
        """Whether there is a key for this endpoint, its client's or that of a runtime with the same endpoint."""
        return self.environment(session_id, endpoint) != self.environment(session_id, endpoint, with_keys=False)

    def has_address(self, session_id: str, endpoint: Endpoint) -> bool:
        """Whether the complete address of an endpoint with a password is known."""
        held = self._sessions.get(session_id)
        return held is not None and (endpoint.base_url or "") in held.urls

    async def wait_changed(self, session_id: str) -> None:
        """Wait until a client has sent keys for this session."""
        changed = self._sessions.setdefault(session_id, SessionKeys()).changed
        changed.clear()
        await changed.wait()

    def copy(self, session_id: str, new: str) -> None:
        """A forked session has the keys of the one it was forked from, a sub-agent's those of its parent."""
        held = self._sessions.get(session_id)
        if held is not None:
            copied = self._sessions.setdefault(new, SessionKeys())
            copied.keys.update(held.keys)
            copied.variables.update(held.variables)
            copied.urls.update(held.urls)
            copied.changed.set()

    def forget(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)


def _shown(base_url: str | None) -> str | None:
    """The address as it may be recorded; one that is not a URL is shown as it is, because it must be corrected."""
    return base_url and (without_credentials(base_url) or base_url).rstrip("/")
