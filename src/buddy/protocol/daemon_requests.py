"""Requests that operate a daemon."""

from typing import Annotated

from msgspec import Meta

from buddy.protocol.shapes import Shape

HAND_OVER_SECONDS = 60.0
MAX_HAND_OVER_SECONDS = 3600


class RestartDaemon(Shape, frozen=True):
    """`waitSeconds`: how long running commands may take to end; `stop`: the client starts the next daemon. Another
    request may shorten the time."""

    wait_seconds: Annotated[float, Meta(ge=0, le=MAX_HAND_OVER_SECONDS)] = HAND_OVER_SECONDS
    stop: bool = False
