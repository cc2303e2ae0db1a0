"""The scrubber, which every text passes before it is stored, shown or sent.

Invariants:
- layers run in order: registered values, token formats, values that follow a telling name, text that looks random;
- `text` is idempotent, and `tree` returns the same object if nothing was found;
- a stream's outputs, joined, are the masking of the complete text, however it was cut into chunks;
- ids, digests and hashes in a tree are never hidden because of their randomness;
- short texts that were found clean are cached until a secret is registered: names, ids and fixed phrases occur in every
  event.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from operator import eq, is_not
from typing import Any, TypeAlias, cast, overload

from msgspec import Struct, to_builtins

from buddy.scrub import heuristics
from buddy.scrub.encodings import MIN_LENGTH
from buddy.scrub.environment import secrets_of
from buddy.scrub.key_names import Kind, kind_of
from buddy.scrub.lazy import LazyPattern
from buddy.scrub.marks import MARK, OPENING
from buddy.scrub.secret_values import is_secret
from buddy.scrub.streams import Stream, ValueStream
from buddy.scrub.text_fields import text_fields
from buddy.scrub.values import Values

Json: TypeAlias = "str | int | float | bool | list[Json] | tuple[Json, ...] | dict[str, Json] | None"

_IDENTIFIER = LazyPattern(
    r"(?:^|[_-])(?:ids?|digest|hash|sha\d*|etag|checksum|integrity|blobs?|seq)$|[a-z](?:Ids?|Hash|Digest)$"
)
# A field that can hold text: its name, its getter, and the texts that are known to be clean there.
_TextField: TypeAlias = tuple[str, Callable[[Any], Any], AbstractSet[str]]
_NOTHING: frozenset[str] = frozenset()
_SHORT = 80
_REMEMBERED = 4096
_AHEAD = 16 * 1024 * 1024


class Scrubber:
    """Knows the secrets of this process. Registering is rare and slow; masking happens for every event."""

    def __init__(self) -> None:
        self.version = 0
        """How often a secret was registered: what was scrubbed before has to be scrubbed again."""
        self._values = Values()
        self._latest = ""
        self._ahead: dict[int, tuple[str, str]] = {}  # by identity: comparing long texts would cost as much as hashing
        self._clean: dict[bool, set[str]] = {True: set(), False: set()}  # by whether randomness was checked
        self._text_fields: dict[type[Struct], tuple[_TextField, ...]] = {}

    def register(self, secret: str) -> None:
        """Hide this value from now on; one too short to be distinguished from normal text is ignored."""
        secret = secret.strip()
        if len(secret) >= MIN_LENGTH:
            self._values.add(secret)
            self.version += 1
            self._latest = ""
            self._ahead.clear()
            for clean in self._clean.values():
                clean.clear()

    def register_environment(self, env: Mapping[str, str]) -> None:
        for secret in secrets_of(env):
            self.register(secret)

    def text(self, text: str, *, random: bool = True) -> str:
        """Without `random`, for sentences that may name ids, nothing is hidden only because it looks random."""
        return self._mask(text, random=random)

    def scrubbed_ahead(self, text: str) -> str | None:
        """The masked text, if it was scrubbed before this."""
        known = self._ahead.get(id(text))
        return known[1] if known is not None and known[0] is text else text if text is self._latest else None

    def remember(self, text: str, masked: str) -> None:
        """Masking this very text again takes no time, until a few others were remembered or a secret is registered."""
        self._ahead[id(text)] = text, masked
        self._ahead[id(masked)] = masked, masked
        while len(self._ahead) > 2 and sum(len(known) for known, _ in self._ahead.values()) > _AHEAD:
            del self._ahead[next(iter(self._ahead))]

    def registered(self, text: str) -> str:
        """Mask registered values alone: for text that must stay byte for byte the same if it contains none."""
        return self._values.mask(text)

    @overload
    def tree(self, value: str) -> str: ...
    @overload
    def tree(self, value: dict[str, Any]) -> dict[str, Any]: ...
    @overload
    def tree(self, value: Json) -> Json: ...
    def tree(self, value: Json) -> Json:
        """A scrubbed copy of a JSON value, keys included; the value itself if there is nothing to hide."""
        return self._scrub(value, "")

    def is_clean(self, shape: Struct) -> bool:
        """Whether a struct certainly has nothing to hide. Most events have not, and this costs a tenth of `tree`."""
        for name, get, known in self._text_fields.get(type(shape)) or self._find_text_fields(type(shape)):
            value = get(shape)
            if isinstance(value, str):
                if value not in known and self._scrub_field(value, name) is not value:
                    return False
            elif value and not self._is_clean_value(value, name):
                return False
        return True

    def _is_clean_value(self, value: Any, name: str) -> bool:
        if isinstance(value, Struct):
            return self.is_clean(value)
        if isinstance(value, tuple):
            return all(self._is_clean_value(item, name) for item in cast("tuple[Any, ...]", value))
        tree = to_builtins(value)
        return self._scrub(tree, name) is tree

    def _find_text_fields(self, shape: type[Struct]) -> tuple[_TextField, ...]:
        found = self._text_fields[shape] = tuple(
            (name, get, _NOTHING if (traits := _traits(name))[0] else self._clean[traits[1]])
            for name, get in text_fields(shape)
        )
        return found

    def stream(self) -> Stream:
        return Stream(self._values)

    def registered_stream(self) -> ValueStream:
        return ValueStream(self._values)

    def _scrub(self, value: Json, name: str) -> Json:
        match value:
            case str():
                return self._scrub_field(value, name)
            case dict():
                return self._dict(value)
            case list():
                scrubbed = [self._scrub(item, name) for item in value]
                return scrubbed if _differ(scrubbed, value) else value
            case tuple():
                scrubbed = tuple(self._scrub(item, name) for item in value)
                return scrubbed if _differ(scrubbed, value) else value
            case _:
                return value

    def _scrub_field(self, value: str, name: str) -> str:
        kind, random = _traits(name)
        if kind and _is_secret_field(kind, value):
            return MARK
        return self._mask(value, random=random)

    def _dict(self, value: dict[str, Json]) -> dict[str, Json]:
        scrubbed = {self.text(key): self._scrub(item, key) for key, item in value.items()}
        same = len(scrubbed) == len(value) and not _differ(scrubbed.values(), value.values())
        return value if same and all(map(eq, scrubbed, value)) else scrubbed

    def _mask(self, text: str, *, random: bool) -> str:
        clean = self._clean[random]
        if text is self._latest or text in clean:
            return text
        if (known := self._ahead.get(id(text))) is not None and known[0] is text:
            return known[1]
        masked = heuristics.mask(self._values.mask(text), random=random)
        if masked != text:
            return masked
        if random and len(text) > _SHORT:
            # A tool's output is scrubbed twice: before it is truncated, and in the event of its result.
            self._latest = text
        elif len(text) <= _SHORT:
            if len(clean) >= _REMEMBERED:
                clean.clear()
            clean.add(text)
        return text


@lru_cache(maxsize=512)
def _traits(name: str) -> tuple[Kind | None, bool]:
    """What a field's name says about its value: how telling it is, and whether to check for randomness."""
    return (kind_of(name) if name else None), not (name and _IDENTIFIER.search(name))


def _is_secret_field(kind: Kind, value: str) -> bool:
    """Whether the complete value of a field is hidden because of its name: of a password, always."""
    if kind == "password":
        return bool(value) and OPENING not in value
    return is_secret(kind, value, form="quoted")


def _differ(scrubbed: Iterable[Json], value: Iterable[Json]) -> bool:
    return any(map(is_not, scrubbed, value))
