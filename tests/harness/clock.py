"""A clock that only a test moves."""


class ManualClock:
    """Unix milliseconds; call it to read them."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1000)
