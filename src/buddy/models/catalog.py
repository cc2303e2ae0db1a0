"""Facts about a model: its context window, its prices, and whether it takes images.

Invariants: a price belongs to a server: the prices of the shipped table apply only at their own host, so a local server
with a famous model's name costs nothing; what is unknown is None, never a guess.
"""

import re
import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from buddy.config.resolve import Resolved
from buddy.models.contract import TokenUsage

REMEMBERED = 64
_DATE = re.compile(r"-(?:20\d\d-\d\d-\d\d|20\d{6})$")


class Prices(Struct, frozen=True):
    """US dollars per million tokens; input that is read from the cache or written to it costs as much as other input if
    it has no price of its own."""

    input: float
    output: float
    cached: float | None = None
    written: float | None = None

    def cost(self, usage: TokenUsage) -> float:
        cached = min(usage.cached_tokens or 0, usage.input_tokens)
        written = min(usage.cache_write_tokens or 0, usage.input_tokens - cached)
        paid = (usage.input_tokens - cached - written) * self.input + usage.output_tokens * self.output
        paid += cached * (self.input if self.cached is None else self.cached)
        paid += written * (self.input if self.written is None else self.written)
        return paid / 1e6


class Facts(Struct, frozen=True):
    """What one source knows about one model."""

    context_window: int | None = None
    prices: Prices | None = None
    vision: bool | None = None

    def or_else(self, other: "Facts") -> "Facts":
        """These facts, completed by the other's."""
        vision = other.vision if self.vision is None else self.vision
        return Facts(self.context_window or other.context_window, self.prices or other.prices, vision)

    @property
    def is_complete(self) -> bool:
        return self.context_window is not None and self.prices is not None


def configured_facts(resolved: Resolved) -> Facts:
    """What the profile says."""
    prices = None
    if resolved.input_price is not None and resolved.output_price is not None:
        prices = Prices(resolved.input_price, resolved.output_price)
    return Facts(resolved.context_limit if resolved.context_known else None, prices, resolved.vision)


@lru_cache(REMEMBERED)
def shipped_facts(model: str, base_url: str = "") -> Facts:
    """What the table shipped with Buddy says about the model, and its price at this server."""
    names, host = _names(model), urlsplit(base_url).hostname or ""
    rules = _rules(names)
    window = next((rule.context_window for rule in rules if rule.context_window is not None), None)
    prices = next((rule.prices() for rule in rules if rule.host and rule.host == host), None)
    return Facts(window, prices)


def known_offline(resolved: Resolved) -> Facts:
    """What is known without a request. A login is paid for as a plan, not by the token."""
    known = configured_facts(resolved)
    table = shipped_facts(resolved.model, resolved.base_url)
    return known.or_else(Facts(table.context_window) if resolved.auth == "login" else table)


def without_date(name: str) -> str:
    """`gpt-5-2025-08-07` and `claude-sonnet-4-20250514` are dated releases of the names before the date."""
    return _DATE.sub("", name)


class _Rule(Struct, frozen=True):
    match: Literal["exact", "prefix", "contains"]
    pattern: str
    context_window: int | None = None
    host: str = ""
    input_price: float = 0.0
    output_price: float = 0.0
    cached_price: float | None = None
    written_price: float | None = None

    def matches(self, names: tuple[str, ...]) -> bool:
        match self.match:
            case "exact":
                return self.pattern in names
            case "prefix":
                return any(name.startswith(self.pattern) for name in names)
            case "contains":
                return any(self.pattern in name for name in names)

    def prices(self) -> Prices:
        return Prices(self.input_price, self.output_price, self.cached_price, self.written_price)


class _Table(Struct, frozen=True):
    rule: tuple[_Rule, ...]


def _rules(names: tuple[str, ...]) -> tuple[_Rule, ...]:
    """The rules for these names, in the table's order. A pattern that matches occurs in the longest name, so that only
    few lines need to be read as TOML: all of them would cost every start 20 ms."""
    lines = [line for pattern, line in _lines() if pattern in names[0]]
    if not lines:
        return ()
    table = tomllib.loads("\n".join(["rule = [", *lines, "]"]))
    return tuple(rule for rule in msgspec.convert(table, _Table).rule if rule.matches(names))


@cache
def _lines() -> tuple[tuple[str, str], ...]:
    text = Path(__file__).with_name("models.toml").read_text(encoding="utf-8")
    return tuple((line.split('"', 4)[3], line) for line in text.splitlines() if line.startswith("  { "))


def _names(model: str) -> tuple[str, ...]:
    """The spellings that a rule is matched against: complete, after the last slash, and both without a date."""
    full = model.lower().partition(":")[0]
    spellings = (full, full.rpartition("/")[2])
    return tuple(dict.fromkeys((*spellings, *(without_date(name) for name in spellings))))
