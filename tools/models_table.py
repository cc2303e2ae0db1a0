"""Write `models.toml` from the data of genai-prices.

    python tools/models_table.py [FILE]

Invariants: the same version of genai-prices gives the same file, byte for byte; no rule is written that an
earlier one makes unreachable or needless.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

from genai_prices.data import providers
from genai_prices.types import (
    ClauseContains,
    ClauseEquals,
    ClauseOr,
    ClauseStartsWith,
    ConditionalPrice,
    MatchLogic,
    ModelInfo,
    ModelPrice,
    StartDateConstraint,
    TieredPrices,
)
from msgspec import Struct

from buddy.models.catalog import without_date

TARGET = Path(__file__).parent.parent / "src" / "buddy" / "models" / "models.toml"

# Where the makers of models sell them: the host decides whose price it is.
HOSTS = {
    "openai": "api.openai.com",
    "anthropic": "api.anthropic.com",
    "google": "generativelanguage.googleapis.com",
    "deepseek": "api.deepseek.com",
    "moonshotai": "api.moonshot.ai",
    "mistral": "api.mistral.ai",
    "x-ai": "api.x.ai",
    "zai": "api.z.ai",
    "groq": "api.groq.com",
}
# What does not talk in text, what is gone, and others' models: a maker's table need not hold them.
LEFT_OUT = re.compile(
    r"embedding|tts|audio|realtime|transcribe|image|vision|live|search-preview|gpt-3|gpt-4-32k|@|^ft:|^claude-(?:v?2|3-[hso])"
)
STILL_ASKED_FOR = (HOSTS["moonshotai"], HOSTS["deepseek"], HOSTS["zai"])
# What the makers' own lists leave out, a reseller's tells.
WINDOWS = {
    model.id.lower().rpartition("/")[2]: model.context_window
    for provider in providers
    if provider.id == "openrouter"
    for model in provider.models
    if model.context_window
}
MOST = 400
KINDS = ("exact", "prefix", "contains")


class Rule(Struct, frozen=True):
    match: str
    pattern: str
    host: str
    window: int | None
    prices: tuple[Decimal, Decimal, Decimal | None] | None

    def line(self) -> str:
        parts = [f'match = "{self.match}"', f'pattern = "{self.pattern}"']
        if self.window is not None:
            parts.append(f"context_window = {self.window}")
        if self.prices is not None:
            parts.append(f'host = "{self.host}"')
            parts += [
                f"{name}_price = {price.normalize():f}"
                for name, price in zip(("input", "output", "cached"), self.prices, strict=True)
                if price is not None
            ]
        return f"  {{ {', '.join(parts)} }},"


def make_table() -> str:
    rules = list(_reachable(sorted(_all_rules(), key=_order)))
    if len(rules) > MOST:
        raise SystemExit(f"{len(rules)} rules; there should be at most {MOST}")
    head = f"""\
# What is known of models: windows in tokens, prices in US dollars per million tokens. The first rule that matches wins,
# for windows anywhere, for prices at its own host; see catalog.py. Made by tools/models_table.py
# from genai-prices {version("genai-prices")} (MIT licence): do not edit.
schema_version = 1
default_context_window = 8192
source = "genai-prices {version("genai-prices")}"

rule = [
"""
    return head + "\n".join(rule.line() for rule in rules) + "\n]\n"


def _all_rules() -> Iterator[Rule]:
    for provider in providers:
        if provider.id in HOSTS:
            for model in provider.models:
                yield from _rules(model, HOSTS[provider.id])


def _rules(model: ModelInfo, host: str) -> Iterator[Rule]:
    prices, window = _prices(model), model.context_window or WINDOWS.get(model.id.lower())
    if window is None or (model.deprecated and host not in STILL_ASKED_FOR):
        return
    for kind, pattern in _patterns(model.match):
        if not LEFT_OUT.search(pattern) and ("claude" not in pattern or "anthropic" in host):
            yield Rule(kind, pattern.lower(), host, window, prices)


def _patterns(match: MatchLogic) -> Iterator[tuple[str, str]]:
    match match:
        case ClauseEquals():
            yield "exact", match.equals
        case ClauseStartsWith():
            yield "prefix", match.starts_with
        case ClauseContains():
            yield "contains", match.contains
        case ClauseOr():
            for clause in match.or_:
                yield from _patterns(clause)
        case _:
            return


def _prices(model: ModelInfo) -> tuple[Decimal, Decimal, Decimal | None] | None:
    prices = _latest(model.prices) if isinstance(model.prices, list) else model.prices
    paid, made = _base(prices.input_mtok), _base(prices.output_mtok)
    return None if paid is None or made is None else (paid, made, _base(prices.cache_read_mtok))


def _latest(prices: Iterable[ConditionalPrice]) -> ModelPrice:
    """The price that began last; where it depends on the time of day, the dearest, so that a budget holds."""
    always = [
        price for price in prices if price.constraint is None or isinstance(price.constraint, StartDateConstraint)
    ]
    latest = max(always, key=_begin)
    by_hour = [price for price in prices if price not in always]
    return max([latest, *by_hour], key=lambda price: _base(price.prices.output_mtok) or Decimal()).prices


def _begin(price: ConditionalPrice) -> date:
    return price.constraint.start_date if isinstance(price.constraint, StartDateConstraint) else date.min


def _base(price: Decimal | TieredPrices | None) -> Decimal | None:
    return price.base if isinstance(price, TieredPrices) else price


def _order(rule: Rule) -> tuple[int, int, str, int]:
    # The longest pattern says most. Makers come before those who serve the same model for them.
    return KINDS.index(rule.match), -len(rule.pattern), rule.pattern, list(HOSTS.values()).index(rule.host)


def _reachable(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Without those that say for their host what a later, wider rule says too."""
    kept: list[Rule] = []
    for rule in reversed(list(rules)):
        same = next((other for other in reversed(kept) if _covers(other, rule)), None)
        if same is None or (same.window, same.prices, same.host) != (rule.window, rule.prices, rule.host):
            kept.append(rule)
    yield from reversed(kept)


def _covers(wider: Rule, rule: Rule) -> bool:
    match wider.match:
        case "exact":
            return rule.match == "exact" and wider.pattern in (rule.pattern, without_date(rule.pattern))
        case "prefix":
            return rule.match != "contains" and rule.pattern.startswith(wider.pattern)
        case _:
            return wider.pattern in rule.pattern


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET).write_text(make_table(), encoding="utf-8")
