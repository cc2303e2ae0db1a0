"""A server's own list of its models, and what it says about each.

Invariants: a query takes at most three seconds, and a failure is a result too, in words; a list is queried once per
server and process, one that failed again after a while; no response is trusted to have any shape.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec import Struct, field

from buddy.errors import ProviderError
from buddy.models.apis import access_of, add_version
from buddy.models.catalog import Facts, Prices
from buddy.models.credentials import Credentials
from buddy.models.http.address import Address, parse_address
from buddy.models.http.client import ConnectTimeout, HttpClient, Timeouts
from buddy.models.http.connection import ReadTimeout

SECONDS = 3.0
AGAIN_AFTER = 300.0
MAX_BODY = 16 * 1024 * 1024

_WINDOWS = (
    "context_length",
    "max_model_len",
    "context_window",
    "max_context_length",
    "max_input_tokens",
    "inputTokenLimit",
)


class Listing(Struct, frozen=True):
    """The models by name; `trouble` says why there are none."""

    models: dict[str, Facts] = field(default_factory=dict[str, Facts])
    trouble: str = ""

    def facts(self, model: str) -> Facts:
        return self.models.get(model) or Facts()


class Listings:
    """The lists of all servers that this process uses."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[str, tuple[Listing, float]] = {}

    async def of(self, base_url: str, credentials: Credentials, api: str = "") -> Listing:
        server = add_version(base_url, api)
        held, at = self._held.get(server, (None, 0.0))
        if held is None or (held.trouble and self._clock() - at > AGAIN_AFTER):
            held = await list_models(base_url, credentials, api=api)
            self._held[server] = held, self._clock()
        return held


async def list_models(base_url: str, credentials: Credentials, seconds: float = SECONDS, api: str = "") -> Listing:
    """Ask a server for its models."""
    access = access_of(api)
    try:
        async with asyncio.timeout(seconds):
            headers = {**access.headers, **(await credentials.headers())}
            status, body = await _get(parse_address(add_version(base_url, api)), access.models, headers, seconds)
    except (TimeoutError, ConnectTimeout, ReadTimeout):
        return Listing(trouble=f"no answer within {seconds:g} s")
    except ProviderError as error:
        return Listing(trouble=str(error))
    except (OSError, ValueError):
        return Listing(trouble="no connection")
    listing = _meaning(status, body)
    if api == "gemini":
        return Listing({name.removeprefix("models/"): facts for name, facts in listing.models.items()}, listing.trouble)
    return listing


async def _get(address: Address, path: str, login: Mapping[str, str], seconds: float) -> tuple[int, bytes]:
    client = HttpClient(address, Timeouts(connect=seconds, idle=seconds))
    response = await client.request("GET", path, {"accept": "application/json", **login})
    try:
        body = b""
        while len(body) <= MAX_BODY and (more := await response.read()):
            body += more
    finally:
        response.close()
        client.close()
    return response.status, body


def _meaning(status: int, body: bytes) -> Listing:
    if status in (401, 403):
        return Listing(trouble=f"the key was refused (HTTP {status})")
    if status in (404, 405):
        return Listing(trouble=f"the server has no model list (HTTP {status})")
    if status != 200:
        return Listing(trouble=f"HTTP {status}")
    models = read_models(body)
    return Listing(models) if models else Listing(trouble="the model list is empty or unreadable")


class _Entry(Struct, frozen=True):
    name: str
    facts: Facts


def read_models(body: bytes) -> dict[str, Facts]:
    """Every model of a response to `/models`, whatever names this server uses."""
    try:
        answer: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return {entry.name: entry.facts for entry in _entries(answer)}


def _entries(answer: object) -> Iterable[_Entry]:
    top = _fields(answer)
    items = top.get("data", top.get("models", answer))
    for item in msgspec.convert(items, list[object]) if isinstance(items, list) else []:
        fields = _fields(item)
        name = fields.get("id") or fields.get("slug") or fields.get("name")
        if isinstance(name, str):
            yield _Entry(name, Facts(_window(fields), _prices(_fields(fields.get("pricing"))), _vision(fields)))


def _fields(value: object) -> dict[str, object]:
    return msgspec.convert(value, dict[str, object]) if isinstance(value, dict) else {}


def _window(fields: Mapping[str, object]) -> int | None:
    # llama.cpp reports `meta.n_ctx`: what was allocated for this run of the server.
    candidates = [*(fields.get(name) for name in _WINDOWS), _fields(fields.get("meta")).get("n_ctx")]
    sizes = (number for number in map(_number, candidates) if number is not None and 1 <= number < 1e9)
    return next((int(size) for size in sizes), None)


def _prices(pricing: Mapping[str, object]) -> Prices | None:
    """OpenRouter's are per token and called prompt and completion, Together's per million: input and output."""
    for names, tokens in (
        (("prompt", "completion", "input_cache_read", "input_cache_write"), 1e6),
        (("input", "output", "cached_input", "cache_write"), 1.0),
    ):
        prices = [None if (price := _number(pricing.get(name))) is None else price * tokens for name in names]
        paid, made, cached, written = prices
        if paid is not None and made is not None:
            return Prices(paid, made, cached, written)
    return None


def _vision(fields: Mapping[str, object]) -> bool | None:
    """Whether the model takes images: OpenRouter and xAI list what it takes, Mistral and Anthropic what it can."""
    taken = _fields(fields.get("architecture")).get("input_modalities", fields.get("input_modalities"))
    if isinstance(taken, list):
        return "image" in taken
    can = _fields(fields.get("capabilities"))
    said = can.get("vision", _fields(can.get("image_input")).get("supported"))
    return said if isinstance(said, bool) else None


def _number(value: object) -> float | None:
    """A number, also as text; a negative one means that it depends."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and number >= 0 else None
