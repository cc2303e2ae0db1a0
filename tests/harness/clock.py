"""Clocks that only a test moves."""

from buddy.protocol.shapes import BootTime


class ManualClock:
    """Unix milliseconds; call it to read them."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1000)


class ManualBootClock:
    """The boot clock of a machine that a test puts to sleep or boots again."""

    def __init__(self) -> None:
        self.boot = "first"
        self.now = 1_000_000

    def __call__(self) -> BootTime:
        return BootTime(self.boot, self.now)

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1000)
