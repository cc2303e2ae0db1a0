"""Finds models that work without configuration: keys in the environment, servers on this machine.

Invariants: only the loopback address is contacted, all ports at once and for less than a second; a key is referred to
by its variable, never shown or sent.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from buddy.models.credentials import ApiKey
from buddy.models.listing import list_models

SECONDS = 0.7


class DiscoveredProfile(Struct, frozen=True):
    """A profile that could be used: the lines of its block, and how it was found."""

    name: str
    what: str
    block: str
    environment: str


class _Vendor(Struct, frozen=True):
    name: str
    title: str
    variable: str
    base_url: str
    model: str
    api: str = "completions"


_GEMINI = "https://generativelanguage.googleapis.com/v1beta"
VENDORS = (
    _Vendor("openai", "OpenAI", "OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-5.3-codex", "responses"),
    _Vendor(
        "anthropic", "Anthropic", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1", "claude-sonnet-5-5", "anthropic"
    ),
    _Vendor("gemini", "Gemini", "GEMINI_API_KEY", _GEMINI, "gemini-pro-latest", "gemini"),
    _Vendor("google", "Gemini", "GOOGLE_API_KEY", _GEMINI, "gemini-pro-latest", "gemini"),
    _Vendor("openrouter", "OpenRouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "deepseek/deepseek-v3.2"),
    _Vendor("kimi", "Moonshot", "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1", "kimi-k2.5"),
    _Vendor("deepseek", "DeepSeek", "DEEPSEEK_API_KEY", "https://api.deepseek.com", "deepseek-chat"),
    _Vendor("mistral", "Mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", "mistral-large-latest"),
    _Vendor("groq", "Groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b"),
    _Vendor("xai", "xAI", "XAI_API_KEY", "https://api.x.ai/v1", "grok-4-fast-reasoning-latest"),
    _Vendor("zai", "Z.ai", "ZAI_API_KEY", "https://api.z.ai/api/paas/v4", "glm-5"),
)
SERVERS = {"Ollama": 11434, "LM Studio": 1234, "vLLM": 8000, "llama.cpp": 8080}


async def discover(env: Mapping[str, str], servers: Mapping[str, int] = SERVERS) -> list[DiscoveredProfile]:
    """Everything that could be used, servers on this machine first."""
    answers = await asyncio.gather(*(_probe(title, port) for title, port in servers.items()))
    keys = [_with_key(vendor) for vendor in VENDORS if env.get(vendor.variable, "").strip()]
    return [found for found in answers if found is not None] + keys


def _with_key(vendor: _Vendor) -> DiscoveredProfile:
    api = f'api = "{vendor.api}"\n' if vendor.api != "completions" else ""
    settings = f"BUDDY_BASE_URL={vendor.base_url} BUDDY_MODEL={vendor.model}"
    if vendor.api != "completions":
        settings += f" BUDDY_API={vendor.api}"
    return DiscoveredProfile(
        name=vendor.name,
        what=f"{vendor.title}, with {vendor.variable}",
        block=f'api_base_url = "{vendor.base_url}"\n{api}api_key_env = "{vendor.variable}"\nmodel = "{vendor.model}"\n',
        environment=f"{settings} BUDDY_API_KEY=${vendor.variable}",
    )


async def _probe(title: str, port: int) -> DiscoveredProfile | None:
    base_url = f"http://127.0.0.1:{port}/v1"
    listing = await list_models(base_url, ApiKey(""), SECONDS)
    model = next((name for name in listing.models if _is_plain(name)), None)
    if model is None:
        return None
    more = f" and {len(listing.models) - 1} more" if len(listing.models) > 1 else ""
    return DiscoveredProfile(
        name="".join(letter for letter in title.lower() if letter.isalnum()),
        what=f"{title} at 127.0.0.1:{port}, with {model}{more}",
        block=f'api_base_url = "{base_url}"\nmodel = "{model}"\n',
        environment=f"BUDDY_BASE_URL={base_url} BUDDY_MODEL={model}",
    )


def _is_plain(name: str) -> bool:
    """Whether a name needs no quoting in a file or on a command line."""
    return 0 < len(name) <= 200 and all(letter.isalnum() or letter in "-_./:@+" for letter in name) and name.isascii()
