"""How good the scrubber is, in figures: what the documentation publishes, tests assert and the benchmark prints."""

import base64
import json
import math
import random
import time
import urllib.parse
from collections.abc import Callable, Iterable

from msgspec import Struct

from buddy.scrub import Scrubber
from tests.scrub.samples import TEMPLATES, sample, secret_part

OPENING = "[REDACTED"
FORMS: list[Callable[[str], str]] = [
    str,
    lambda text: json.dumps(text)[1:-1],
    lambda text: text.encode().hex(),
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: base64.b64encode(b"u:" + text.encode()).decode(),
    lambda text: urllib.parse.quote(text, safe=""),
]


class Recall(Struct, frozen=True):
    found: int
    total: int

    @property
    def value(self) -> float:
        return self.found / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval."""
        z, n, p = 1.96, self.total, self.value
        middle, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - spread) / (1 + z * z / n), (middle + spread) / (1 + z * z / n)


def made_up_secrets(count: int, seed: int = 5) -> list[str]:
    dice = random.Random(seed)  # noqa: S311 - repeatable, and no secret
    letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+/=!$"\\é '
    return ["s" + "".join(dice.choices(letters, k=dice.randrange(8, 48))) + "e" for _ in range(count)]


def knowing(secrets: Iterable[str]) -> Scrubber:
    scrubber = Scrubber()
    for secret in secrets:
        scrubber.register(secret)
    return scrubber


def leaks(secrets: list[str], cuts: int) -> int:
    """How often a registered secret, in any form and cut at some places, comes through a stream."""
    dice = random.Random(3)  # noqa: S311 - repeatable
    found = 0
    for secret in secrets:
        scrubber = knowing([secret])
        for form in (make(secret) for make in FORMS):
            text = f"it is {form}\nindeed"
            places = range(len(text)) if cuts >= len(text) else dice.sample(range(len(text)), cuts)
            found += sum(_leaks_at(scrubber, text, place, form) for place in places)
    return found


def _leaks_at(scrubber: Scrubber, text: str, place: int, form: str) -> bool:
    stream = scrubber.stream()
    core = form.rstrip("=")[3:-3]  # base64 characters that depend on their neighbours are not a leak
    return core in stream.feed(text[:place]) + stream.feed(text[place:]) + stream.finish()


def recall_of_formats(per_format: int) -> Recall:
    scrubber = Scrubber()
    tokens = [sample(template, seed) for template in TEMPLATES for seed in range(per_format)]
    found = sum(secret_part(token) not in scrubber.text(f"here: {token} .") for token in tokens)
    return Recall(found, len(tokens))


def recall_of_lines(lines: list[str]) -> Recall:
    """Lines that each hold a secret, and are changed."""
    scrubber = Scrubber()
    return Recall(sum(scrubber.text(line) != line for line in lines), len(lines))


def false_hits(text: str) -> int:
    return Scrubber().text(text).count(OPENING) - text.count(OPENING)


def megabytes_per_second(scrubber: Scrubber, text: str, repeats: int = 3) -> float:
    """By CPU time, the best of several. Each text is another one: the scrubber remembers the last clean text."""
    best = math.inf
    for number in range(repeats):
        other = text[number:]
        began = time.process_time()
        scrubber.text(other)
        best = min(best, time.process_time() - began)
    return len(text) / 1e6 / best
