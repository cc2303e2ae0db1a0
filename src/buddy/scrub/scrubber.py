"""The scrubber, which every text passes before it is stored, shown or sent.

Invariants:
- layers run in order: registered values, token formats, values that follow a telling name, text that looks random;
- `text` is idempotent, and `tree` returns the same object if nothing was found;
- a stream's outputs, joined, are the masking of the complete text, however it was cut into chunks;
- ids, digests and hashes in a tree are never hidden because of their randomness;
- short texts that were found clean are cached until a secret is registered: names, ids and fixed phrases occur in every
  event;
- in steps, the result is the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from buddy.steps import Steps, at_once, parts

Json: TypeAlias = "str | int | float | bool | list[Json] | tuple[Json, ...] | dict[str, Json] | None"

_IDENTIFIER = LazyPattern(
    r"(?:^|[_-])(?:ids?|digest|hash|sha\d*|etag|checksum|integrity|blobs?|seq)$|[a-z](?:Ids?|Hash|Digest)$"
)
# A field that can hold text: its name, its getter, and the texts that are known to be clean there.
_TextField: TypeAlias = tuple[str, Callable[[Any], Any], AbstractSet[str]]
_NOTHING: frozenset[str] = frozenset()
_LISTS = (list, tuple)
_SHORT = 80
_REMEMBERED = 4096
_AHEAD = 16 * 1024 * 1024
_AT_ONCE = 512
_PART = 16  # what a part of a value takes, in characters
SLICE = 4 * 1024
"""Characters of a long text that are examined together; a step takes less, if there is much in them."""


class Scrubber:
    """Knows the secrets of this process. Registering is rare and slow; masking happens for every event."""

    def __init__(self) -> None:
        self.version = 0
        """How often a secret was registered: what was scrubbed before has to be scrubbed again."""
        self._values = Values()
        self._latest = ""
        self._known = MaskedTexts()
        self._clean: dict[bool, set[str]] = {True: set(), False: set()}  # by whether randomness was checked
        self._text_fields: dict[type[Struct], tuple[_TextField, ...]] = {}

    def register(self, secret: str) -> None:
        """Hide this value from now on; one too short to be distinguished from normal text is ignored."""
        secret = secret.strip()
        if len(secret) >= MIN_LENGTH:
            self._values.add(secret)
            self.version += 1
            self._latest = ""
            self._known.clear()
            for clean in self._clean.values():
                clean.clear()

    def register_environment(self, env: Mapping[str, str]) -> None:
        for secret in secrets_of(env):
            self.register(secret)

    def text(self, text: str, *, random: bool = True) -> str:
        """Without `random`, for sentences that may name ids, nothing is hidden only because it looks random."""
        return self._mask(text, random=random)

    def text_steps(self, text: str, *, random: bool = True) -> Steps[str]:
        """The same in steps; masking this very text again takes no time, until a few others were masked."""
        if len(text) <= _AT_ONCE or not random:
            return self._mask(text, random=random)
        if (known := self._known.get(text)) is not None or text is self._latest:
            return known or text
        stream = self.stream()
        pieces: list[str] = []
        for part in parts(text, SLICE):
            pieces.append((yield from stream.feed_steps(part)))
            yield
        masked = "".join([*pieces, (yield from stream.finish_steps())])
        yield
        masked = text if masked == text else masked
        self._known.add(text, masked)
        return masked

    def registered(self, text: str) -> str:
        """Mask registered values alone: for text that must stay byte for byte the same if it contains none."""
        return self._values.mask(text)

    def registered_steps(self, text: str) -> Steps[str]:
        """The same in steps."""
        if len(text) <= _AT_ONCE or self._values.empty:
            return self.registered(text)
        stream = ValueStream(self._values)
        pieces: list[str] = []
        for part in parts(text, SLICE):
            pieces.append((yield from stream.feed(part)))
            yield
        return "".join([*pieces, (yield from stream.finish())])

    @overload
    def tree(self, value: dict[str, Any]) -> dict[str, Any]: ...
    @overload
    def tree(self, value: Json) -> Json: ...
    def tree(self, value: Json) -> Json:
        """A scrubbed copy of a JSON value, keys included; the value itself if there is nothing to hide."""
        return at_once(self._scrub(value, ""))

    def tree_steps(self, value: dict[str, Any]) -> Steps[dict[str, Any]]:
        """The same in steps."""
        return self._dict(value)

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
        match value:
            case str():
                return self._scrub_field(value, name) is value
            case tuple() | list():
                return all(self._is_clean_value(item, name) for item in cast("Sequence[Any]", value))
            case dict():
                for key, item in cast("dict[str, Any]", value).items():
                    if self.text(key) is not key or not self._is_clean_value(item, key):
                        return False
                return True
            case Struct():
                return self.is_clean(value)
            case _:
                tree = to_builtins(value)
                return at_once(self._scrub(tree, name)) is tree

    def _find_text_fields(self, shape: type[Struct]) -> tuple[_TextField, ...]:
        found = self._text_fields[shape] = tuple(
            (name, get, _NOTHING if (traits := _traits(name))[0] else self._clean[traits[1]])
            for name, get in text_fields(shape)
        )
        return found

    def stream(self) -> Stream:
        return Stream(self._values)

    def _scrub(self, value: Json, name: str) -> Steps[Json]:
        match value:
            case str():
                if len(value) <= _AT_ONCE:
                    return self._scrub_field(value, name)
                return (yield from self._scrub_long_field(value, name))
            case dict():
                return (yield from self._dict(value))
            case list():
                scrubbed = yield from _scrub_all(self._scrub, value, name)
                return scrubbed if _differ(scrubbed, value) else value
            case tuple():
                scrubbed = tuple((yield from _scrub_all(self._scrub, value, name)))
                return scrubbed if _differ(scrubbed, value) else value
            case _:
                return value

    def _scrub_field(self, value: str, name: str) -> str:
        if len(value) > _AT_ONCE:
            return at_once(self._scrub_long_field(value, name))
        kind, random = _traits(name)
        if kind and _is_secret_field(kind, value):
            return MARK
        return self._mask(value, random=random)

    def _scrub_long_field(self, value: str, name: str) -> Steps[str]:
        kind, random = _traits(name)
        if kind and _is_secret_field(kind, value):
            return MARK
        return (yield from self.text_steps(value, random=random))

    def _dict(self, value: dict[str, Json]) -> Steps[dict[str, Json]]:
        scrubbed: dict[str, Json] = {}
        for key, item in value.items():
            hidden = yield from self.text_steps(key)
            scrubbed[hidden] = yield from self._scrub(item, key)
            yield
        same = len(scrubbed) == len(value) and not _differ(scrubbed.values(), value.values())
        return value if same and all(map(eq, scrubbed, value)) else scrubbed

    def _mask(self, text: str, *, random: bool) -> str:
        clean = self._clean[random]
        if text is self._latest or text in clean:
            return text
        if (known := self._known.get(text)) is not None:
            return known
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


class MaskedTexts:
    """A few long texts and their masking, by identity: comparing them would cost as much as hashing."""

    def __init__(self) -> None:
        self._masked: dict[int, tuple[str, str]] = {}
        self._size = 0

    def get(self, text: str) -> str | None:
        known = self._masked.get(id(text))
        return known[1] if known is not None and known[0] is text else None

    def add(self, text: str, masked: str) -> None:
        for known in (text, masked):
            if id(known) not in self._masked:
                self._masked[id(known)] = known, masked
                self._size += len(known)
        while len(self._masked) > 2 and self._size > _AHEAD:
            self._size -= len(self._masked.pop(next(iter(self._masked)))[0])

    def clear(self) -> None:
        self._masked.clear()
        self._size = 0


def _scrub_all(scrub: Callable[[Json, str], Steps[Json]], values: Sequence[Json], name: str) -> Steps[list[Json]]:
    scrubbed: list[Json] = []
    for value in values:
        scrubbed.append((yield from scrub(value, name)))
        yield
    return scrubbed


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


def is_long(shape: object) -> bool:
    """Whether scrubbing a struct or a JSON value takes a while: there is a long text in it, or many parts."""
    pending, size = [shape], 0
    while pending and size <= SLICE:
        value = pending.pop()
        if not value:
            continue
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, dict):
            parts_of_it = cast("dict[str, object]", value)
            size += _PART * len(parts_of_it)
            pending += parts_of_it.values()
        elif isinstance(value, _LISTS):
            items = cast("Sequence[object]", value)
            size += _PART * len(items)
            pending += items
        elif isinstance(value, Struct):
            for _, get in text_fields(type(value)):
                if isinstance(part := get(value), str):
                    size += len(part)
                elif part:
                    pending.append(part)
    return size > SLICE
