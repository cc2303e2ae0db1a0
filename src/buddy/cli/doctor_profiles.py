"""What `buddy doctor` says about each profile: its API, its model and server, and where its key comes from.

Invariants: no key is shown, no server is asked and no login is refreshed.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from buddy.cli.doctor_check import Check
from buddy.config.environment import PREFIXES
from buddy.config.resolve import Resolved, profile_names, resolve_profile
from buddy.config.settings import LOCAL_URL, Config, Profile
from buddy.errors import UserError
from buddy.models.discovery import VENDORS
from buddy.models.http.address import parse_address
from buddy.models.login.issuer import find_issuer
from buddy.models.login.tokens import AuthFile
from buddy.scrub import Scrubber


def check_profiles(config: Config, env: Mapping[str, str], auth_file: Path, scrubber: Scrubber) -> Iterator[Check]:
    """A line for each profile that somebody configured."""
    try:
        active = resolve_profile(config, env)
    except UserError:  # the line about the model says what is wrong
        active = None
    built_in = profile_names(Config(), {})
    for name in profile_names(config, env):
        if name not in config.models and name in built_in:
            continue
        try:
            is_active = active is not None and active.profile == name
            resolved = active if active is not None and is_active else resolve_profile(config, env, name)
            scrubber.register(resolved.api_key)
            profile = config.models.get(name) or Profile()
            source = _source(config, env, profile, is_active=is_active) if resolved.api_key else ""
            yield _profile(resolved, f"{name}{' (active)' if is_active else ''}", source, AuthFile(auth_file))
        except UserError as error:
            yield Check("profile", "warn", f"{name}: {error}", error.hint)


def _profile(resolved: Resolved, name: str, source: str, auth: AuthFile) -> Check:
    text = f"{name}: api {resolved.api}"
    if resolved.api == "scripted" or resolved.base_url == LOCAL_URL:
        return Check("profile", "ok", f"{text}, needs no key")
    text = f"{text}, {resolved.describe()}"
    if resolved.auth == "login":
        return _login(resolved, text, auth)
    return Check("profile", "ok", f"{text}; key from {source}") if source else _without_key(resolved, text)


def _source(config: Config, env: Mapping[str, str], profile: Profile, *, is_active: bool) -> str:
    """Where the key comes from that `resolve_profile` found."""
    variable = next((f"{prefix}API_KEY" for prefix in PREFIXES if env.get(f"{prefix}API_KEY")), "")
    own = profile.api_key or profile.api_key_file or (profile.api_key_env and env.get(profile.api_key_env))
    if variable and (is_active or not own):
        return variable
    if profile.api_key_env:
        return profile.api_key_env
    return f"the file {profile.api_key_file}" if profile.api_key_file else f"api_key in {config.source}"


def _without_key(resolved: Resolved, text: str) -> Check:
    if resolved.unset_variable:
        return Check("profile", "warn", f"{text}; no key", f"export {resolved.unset_variable}=…")
    if variable := _vendor_variable(resolved.base_url):
        hint = f'export {variable}=…, and set api_key_env = "{variable}" in [models.{resolved.profile}]'
        return Check("profile", "warn", f"{text}; no key", hint)
    return Check("profile", "info", f"{text}; no key is configured")


def _vendor_variable(base_url: str) -> str:
    """The usual variable for the key of a vendor whose servers all need one."""
    try:
        host = parse_address(base_url).host
    except ValueError:
        return ""
    return next((vendor.variable for vendor in VENDORS if parse_address(vendor.base_url).host == host), "")


def _login(resolved: Resolved, text: str, auth: AuthFile) -> Check:
    issuer = find_issuer(resolved.issuer, resolved.client_id)
    if auth.read(issuer.name) is None:
        return Check("profile", "warn", f"{text}; not logged in to {issuer.url}", f"buddy login {resolved.profile}")
    return Check("profile", "ok", f"{text}; logged in to {issuer.url}")
