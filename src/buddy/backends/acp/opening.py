"""Opens a session of an ACP agent: a new one or a resumed one, in a mode that fits.

Invariant: no session is used in a mode that skips questions if the agent has one that asks, and none plans without a
planning mode.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from buddy.backends.external.contract import AgentRequest, SessionLost
from buddy.backends.external.lenient import mapping, mappings, text
from buddy.errors import ProviderError, UserError

MAX_ID = 1000
# The modes that only plan, and those in which an agent asks before it changes anything.
PLANNING = ("plan", "spec", "read-only", "ask", "architect")
ASKING = ("default", "normal", "manual", "read-only")

Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Sends a request to the agent and returns its reply."""


class Opened(NamedTuple):
    session_id: str
    takes_images: bool


async def open_session(name: str, ask: Ask, request: AgentRequest) -> Opened:
    """The agent's session; UserError if it has no mode for what is asked of it."""
    capabilities = await _initialize(name, ask)
    if request.session_id is None:
        opened = await ask("session/new", {"cwd": request.cwd, "mcpServers": []})
        session_id = text(opened.get("sessionId"))
        if not 0 < len(session_id) <= MAX_ID:
            raise ProviderError(f"{name} started a session without an id", retryable=False)
    else:
        session_id = request.session_id
        opened = await _resume(name, ask, request.cwd, session_id, capabilities)
    await _choose_mode(name, ask, request, session_id, opened)
    if request.model:
        chosen = {"sessionId": session_id, "configId": "model", "value": request.model}
        await ask("session/set_config_option", chosen)
    return Opened(session_id, mapping(capabilities.get("promptCapabilities")).get("image") is True)


async def _initialize(name: str, ask: Ask) -> dict[str, Any]:
    reply = await ask(
        "initialize",
        {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
            "clientInfo": {"name": "buddy", "version": "1"},
        },
    )
    version = reply.get("protocolVersion")
    if version != 1:
        raise ProviderError(f"{name} speaks ACP {version}, not 1", retryable=False)
    return mapping(reply.get("agentCapabilities"))


async def _resume(name: str, ask: Ask, cwd: str, session_id: str, capabilities: dict[str, Any]) -> dict[str, Any]:
    sessions = mapping(capabilities.get("sessionCapabilities"))
    if sessions.get("resume") is None and not capabilities.get("loadSession"):
        raise SessionLost(f"{name} cannot resume a session")
    method = "session/resume" if sessions.get("resume") is not None else "session/load"
    try:
        return await ask(method, {"cwd": cwd, "mcpServers": [], "sessionId": session_id})
    except ProviderError as error:
        raise SessionLost(str(error)) from error


async def _choose_mode(name: str, ask: Ask, request: AgentRequest, session_id: str, opened: dict[str, Any]) -> None:
    modes = mapping(opened.get("modes"))
    available = [text(mode.get("id")) for mode in mappings(modes.get("availableModes"))]

    async def set_mode(mode: str) -> None:
        await ask("session/set_mode", {"sessionId": session_id, "modeId": mode})

    if request.plan:
        # A resumed session may not say which modes it has.
        for mode in _first(available or (PLANNING if request.session_id else ()), PLANNING):
            with suppress(ProviderError):
                return await set_mode(mode)
        if not request.unsafe:
            raise UserError(
                f"{name} has no planning mode, so it can't be held to one",
                hint="omit --plan, use native, or accept the risk with --unsafe-agent",
            )
    elif text(modes.get("currentModeId")).lower() not in ASKING:
        # Its current mode may be one that skips questions, from its own settings or an earlier session.
        for mode in _first(available, ASKING)[:1]:
            await set_mode(mode)
    return None


def _first(available: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """The available modes of a kind, in the order of preference."""
    return [mode for name in wanted for mode in available if mode.lower() == name]
