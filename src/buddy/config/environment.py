"""The variables that name a model's endpoint, as they travel from a client to the runtime.

Invariants: `BUDDY_*` over its alias `AGENT_*`; an empty variable counts as unset. Nothing heavy is loaded: every
command that starts a session reads its environment here.
"""

from buddy.errors import UserError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any, Literal

NAMES = ("BASE_URL", "MODEL", "API_KEY", "API", "CONTEXT_LIMIT")
PREFIXES = ("BUDDY_", "AGENT_")


def override(env: "Mapping[str, str]", name: str) -> str:
    return env.get(f"BUDDY_{name}") or env.get(f"AGENT_{name}") or ""


def window_of(env: "Mapping[str, str]") -> int | None:
    """The context window in tokens, if the environment sets it."""
    text = override(env, "CONTEXT_LIMIT")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise UserError(f"BUDDY_CONTEXT_LIMIT {text!r} is not a number of tokens", hint="for example 128000")
    return int(text)


def api_of(env: "Mapping[str, str]") -> "Literal['completions', 'responses', 'anthropic', 'gemini'] | None":
    """The wire API, if the environment sets it."""
    match override(env, "API"):
        case "":
            return None
        case "completions" | "responses" | "anthropic" | "gemini" as api:
            return api
        case other:
            hint = "available: completions, responses, anthropic, gemini"
            raise UserError(f"BUDDY_API {other!r} is unknown", hint=hint)


def endpoint_of(env: "Mapping[str, str]", key_variables: "Iterable[str]" = ()) -> "dict[str, Any]":
    """What the environment says, as the `endpoint` of `start_session`; empty if it says nothing."""
    keys = {name: env[name] for name in key_variables if env.get(name)}
    fields = {
        "baseUrl": override(env, "BASE_URL"),
        "model": override(env, "MODEL"),
        "api": api_of(env),
        "apiKey": override(env, "API_KEY"),
        "contextLimit": window_of(env),
        "keys": keys,
    }
    return {name: value for name, value in fields.items() if value}


def offered_endpoint(env: "Mapping[str, str]", key_variables: "Iterable[str]" = ()) -> "dict[str, Any]":
    """The `endpoint` of `attach_session`. A key without a server stays a variable: it is not for any server."""
    endpoint = endpoint_of(env, key_variables)
    if "apiKey" in endpoint and "baseUrl" not in endpoint:
        endpoint["keys"] = {**endpoint.get("keys", {}), "BUDDY_API_KEY": endpoint.pop("apiKey")}
    return endpoint


def without_endpoint(env: "Mapping[str, str]") -> dict[str, str]:
    """The environment without the variables that name an endpoint."""
    hidden = {f"{prefix}{name}" for prefix in PREFIXES for name in NAMES}
    return {name: value for name, value in env.items() if name not in hidden}
