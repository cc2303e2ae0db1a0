"""MCP servers that a client brings for one session."""

from typing import Annotated

from msgspec import Meta, field

from buddy.protocol.ids import SessionId
from buddy.protocol.shapes import Shape


class OfferedMcpServer(Shape, frozen=True):
    """Either `command`, with `args` and `env`, or `url`, with `headers`."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,47}$")]
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return f"OfferedMcpServer({self.name!r})"


class OfferMcpServers(Shape, frozen=True):
    """They replace what was offered for the session before. Like keys, they are kept in memory alone, so they are
    offered again after a restart; a server of the user's own file with the same name is used instead."""

    session_id: SessionId
    servers: Annotated[tuple[OfferedMcpServer, ...], Meta(max_length=64)] = ()
