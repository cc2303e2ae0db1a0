"""The scrubber: what every text passes before it is kept, shown or sent.

What always holds:
- layers run in order: registered values first, then what a name beside it gives away;
- `text` is idempotent, and `tree` gives the same object where nothing was found;
- a stream's outputs, joined, are the registered-value masking of the whole text, however it was cut into chunks.
"""

from collections.abc import Iterable, Mapping
from operator import eq, is_not
from typing import Any, TypeAlias, overload

from buddy.scrub import keywords
from buddy.scrub.encodings import MIN_LENGTH
from buddy.scrub.environment import secrets_of
from buddy.scrub.values import MARK, Values

Json: TypeAlias = "str | int | float | bool | list[Json] | tuple[Json, ...] | dict[str, Json] | None"


class Scrubber:
    """Knows the secrets of this process. Registering is for the start of things; masking is for every event."""

    def __init__(self) -> None:
        self._values = Values()

    def register(self, secret: str) -> None:
        """Hide this value from now on; one that is too short to be told from normal text is ignored."""
        secret = secret.strip()
        if len(secret) >= MIN_LENGTH:
            self._values.add(secret)

    def register_environment(self, env: Mapping[str, str]) -> None:
        for secret in secrets_of(env):
            self.register(secret)

    def text(self, text: str) -> str:
        return keywords.mask(self._values.mask(text))

    def registered(self, text: str) -> str:
        """Mask registered values alone: for what must stay byte for byte where it holds none."""
        return self._values.mask(text)

    @overload
    def tree(self, value: str) -> str: ...
    @overload
    def tree(self, value: dict[str, Any]) -> dict[str, Any]: ...
    @overload
    def tree(self, value: Json) -> Json: ...
    def tree(self, value: Json) -> Json:
        """A scrubbed copy of a JSON value, its keys too; the value itself where there is nothing to hide."""
        match value:
            case str():
                return self.text(value)
            case dict():
                return self._dict(value)
            case list():
                scrubbed = [self.tree(item) for item in value]
                return scrubbed if _differ(scrubbed, value) else value
            case tuple():
                scrubbed = tuple(self.tree(item) for item in value)
                return scrubbed if _differ(scrubbed, value) else value
            case _:
                return value

    def _dict(self, value: dict[str, Json]) -> dict[str, Json]:
        scrubbed = {self.text(key): self.tree(item) for key, item in value.items()}
        same = len(scrubbed) == len(value) and not _differ(scrubbed.values(), value.values())
        return value if same and all(map(eq, scrubbed, value)) else scrubbed

    def stream(self) -> "Stream":
        return Stream(self._values)


class Stream:
    """One text that arrives in chunks. Only what could still become a secret is held back."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._held = ""
        self._covered = 0

    def feed(self, text: str) -> str:
        *whole, self._held = (self._held + text).split(MARK)
        released = self._close(whole) if whole else ""
        return released + self._release(self._values.open_at(self._held))

    def finish(self) -> str:
        return self._release(len(self._held))

    def _close(self, parts: list[str]) -> str:
        """Parts that a mark follows are complete."""
        masked: list[str] = []
        for part in parts:
            masked += (self._values.mask_part(part, len(part), self._covered)[0], MARK)
            self._covered = 0
        return "".join(masked)

    def _release(self, cut: int) -> str:
        out, self._covered = self._values.mask_part(self._held, cut, self._covered)
        self._held = self._held[cut:]
        return out


def _differ(scrubbed: Iterable[Json], value: Iterable[Json]) -> bool:
    return any(map(is_not, scrubbed, value))
