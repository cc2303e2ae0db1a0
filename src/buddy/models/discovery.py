"""What a person who configured nothing has at hand: keys in the environment, servers on this machine.

What always holds: only the loopback address is asked, everything at once and for less than a second; a key is named,
never shown, and goes nowhere.
"""

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from buddy.models.credentials import ApiKey
from buddy.models.listing import list_models

SECONDS = 0.7


class Found(Struct, frozen=True):
    """A profile that could be used: the lines of its block, and what it was found by."""

    name: str
    what: str
    block: str
    environment: str


class _Seller(Struct, frozen=True):
    name: str
    title: str
    variable: str
    base_url: str
    model: str
    api: str = "completions"


SELLERS = (
    _Seller("openai", "OpenAI", "OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-5.3-codex", "responses"),
    _Seller("openrouter", "OpenRouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "deepseek/deepseek-v3.2"),
    _Seller("kimi", "Moonshot", "MOONSHOT_API_KEY", "https://api.moonshot.ai/v1", "kimi-k2.5"),
    _Seller("deepseek", "DeepSeek", "DEEPSEEK_API_KEY", "https://api.deepseek.com", "deepseek-chat"),
    _Seller("mistral", "Mistral", "MISTRAL_API_KEY", "https://api.mistral.ai/v1", "mistral-large-latest"),
    _Seller("groq", "Groq", "GROQ_API_KEY", "https://api.groq.com/openai/v1", "openai/gpt-oss-120b"),
    _Seller("xai", "xAI", "XAI_API_KEY", "https://api.x.ai/v1", "grok-4-fast-reasoning-latest"),
    _Seller("zai", "Z.ai", "ZAI_API_KEY", "https://api.z.ai/api/paas/v4", "glm-5"),
)
SERVERS = {"Ollama": 11434, "LM Studio": 1234, "vLLM": 8000, "llama.cpp": 8080}


async def discover(env: Mapping[str, str], servers: Mapping[str, int] = SERVERS) -> list[Found]:
    """Everything that could be used, what runs here first."""
    answers = await asyncio.gather(*(_look_at(title, port) for title, port in servers.items()))
    keys = [_with_key(seller) for seller in SELLERS if env.get(seller.variable, "").strip()]
    return [found for found in answers if found is not None] + keys


def _with_key(seller: _Seller) -> Found:
    api = f'api = "{seller.api}"\n' if seller.api != "completions" else ""
    return Found(
        name=seller.name,
        what=f"{seller.title}, with {seller.variable}",
        block=f'api_base_url = "{seller.base_url}"\n{api}api_key_env = "{seller.variable}"\nmodel = "{seller.model}"\n',
        environment=f"BUDDY_BASE_URL={seller.base_url} BUDDY_MODEL={seller.model} BUDDY_API_KEY=${seller.variable}",
    )


async def _look_at(title: str, port: int) -> Found | None:
    base_url = f"http://127.0.0.1:{port}/v1"
    listing = await list_models(base_url, ApiKey(""), SECONDS)
    model = next((name for name in listing.models if _is_plain(name)), None)
    if model is None:
        return None
    more = f" and {len(listing.models) - 1} more" if len(listing.models) > 1 else ""
    return Found(
        name="".join(letter for letter in title.lower() if letter.isalnum()),
        what=f"{title} at 127.0.0.1:{port}, which has {model}{more}",
        block=f'api_base_url = "{base_url}"\nmodel = "{model}"\n',
        environment=f"BUDDY_BASE_URL={base_url} BUDDY_MODEL={model}",
    )


def _is_plain(name: str) -> bool:
    """Whether a name can go into a file and a command line as it is."""
    return 0 < len(name) <= 200 and all(letter.isalnum() or letter in "-_./:@+" for letter in name) and name.isascii()
