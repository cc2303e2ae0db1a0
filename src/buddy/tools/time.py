"""The current time, by the clock of the machine that has the log."""

from collections.abc import Callable
from datetime import UTC, datetime

from msgspec import Struct

from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.tools.contract import Call, Output, Place
from buddy.tools.texts import text_of


class TimeArgs(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Time:
    """`clock` gives Unix milliseconds."""

    name: str = "time"
    tier: Tier = "read-only"
    source: Source = "unknown"
    args: type[Struct] = TimeArgs
    timeout: float | None = 10.0

    def __init__(self, clock: Callable[[], int]) -> None:
        self.description: str = text_of("time")
        self._clock = clock

    async def intent(self, args: TimeArgs, place: Place) -> Other:  # noqa: ARG002 - it is the same everywhere
        return Other(title="tell the time", summary="the time")

    async def run(self, args: TimeArgs, call: Call) -> Output:  # noqa: ARG002 - the contract's
        now = self._clock()
        moment = datetime.fromtimestamp(now / 1000, UTC)
        return Output(
            f"UTC: {moment:%A, %Y-%m-%d %H:%M:%S}\n"
            f"ISO 8601: {moment:%Y-%m-%dT%H:%M:%S}.{now % 1000:03}Z\n"
            f"RFC 2822: {moment:%a, %d %b %Y %H:%M:%S} +0000\n"
            f"Unix seconds: {now // 1000}\n"
            f"Unix milliseconds: {now}"
        )
