"""Requests that operate a daemon."""

from buddy.protocol.shapes import Shape

HAND_OVER_SECONDS = 60.0


class RestartDaemon(Shape, frozen=True):
    """`waitSeconds`: how long running commands may take to end; `stop`: the client starts the next daemon."""

    wait_seconds: float = HAND_OVER_SECONDS
    stop: bool = False
