"""`buddy login` and `buddy logout`: tokens of a person's account instead of a key.

Invariants: a token is never printed; what the person must open or type goes to stderr; a browser is opened only if
there is a desktop and a person.
"""

import os
import sys
import webbrowser

from buddy.cli.first_run import config_file
from buddy.cli.options import Options
from buddy.cli.settings import places_of, read_config
from buddy.config.settings import Config, Profile
from buddy.config.template import add_profile
from buddy.errors import ProviderError, UserError
from buddy.models.login.account import Flow, LoginScreen, log_in, log_out
from buddy.models.login.device import Pairing
from buddy.models.login.issuer import find_issuer
from buddy.models.login.tokens import AuthFile
from buddy.terminal.escape import escape

DEFAULT = "gpt-codex"
DEFAULT_BLOCK = 'api = "responses"\nauth = "login"\nmodel = "gpt-5.3-codex"\n'


def login(options: Options) -> int:
    config = read_config(options)
    name, profile = choose_profile(config, options.profile)
    issuer = find_issuer(profile.issuer, profile.client_id)
    auth = AuthFile(places_of(options).config_dir / "auth.json")
    try:
        log_in(issuer, auth, _flow(options), LoginScreen(_show_pairing, _show_address))
    except ProviderError as error:
        raise UserError(str(error), hint=error.hint, exit_code=75 if error.retryable else 1) from error
    print(f"logged in to {escape(issuer.url)}; the tokens are in {escape(str(auth.path))}", file=sys.stderr)
    if name not in config.models:
        file = config_file(options)
        add_profile(file, name, DEFAULT_BLOCK)
        print(f"wrote [models.{name}] to {escape(str(file))}", file=sys.stderr)
    return 0


def logout(options: Options) -> int:
    _, profile = choose_profile(read_config(options), options.profile)
    issuer = find_issuer(profile.issuer, profile.client_id)
    was_in = log_out(issuer, AuthFile(places_of(options).config_dir / "auth.json"))
    word = "logged out of" if was_in else "you were not logged in to"
    print(f"{word} {escape(issuer.url)}", file=sys.stderr)
    return 0


def choose_profile(config: Config, name: str | None) -> tuple[str, Profile]:
    """The named profile, else the active or first one that uses a login, else OpenAI's, which is then added."""
    logging_in = [known for known, profile in config.models.items() if profile.auth == "login"]
    if name is None:
        name = config.agent.model if config.agent.model in logging_in else (logging_in or [DEFAULT])[0]
    if name == DEFAULT and name not in config.models:
        return name, Profile(api="responses", auth="login")
    if name not in config.models:
        available = ", ".join(logging_in) or "none that log in"
        raise UserError(f"unknown profile {name!r}. Available: {available}", hint="profiles are [models.NAME]")
    if name not in logging_in:
        raise UserError(f"profile {name!r} uses an API key", hint=f'set auth = "login" in [models.{name}] to log in')
    return name, config.models[name]


def _flow(options: Options) -> Flow:
    if options.device or options.browser:
        return "browser" if options.browser else "device"
    return "browser" if _has_desktop() else "device"


def _has_desktop() -> bool:
    is_remote = bool(os.environ.get("SSH_CONNECTION"))
    is_graphical = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    return is_graphical and not is_remote and sys.stderr.isatty()


def _show_pairing(pairing: Pairing) -> None:
    print(f"open {escape(pairing.url)} and enter the code {escape(pairing.code)}", file=sys.stderr)
    if pairing.direct_url:
        print(f"or open {escape(pairing.direct_url)}", file=sys.stderr)
    print(f"waiting for up to {pairing.seconds / 60:.0f} minutes…", file=sys.stderr, flush=True)


def _show_address(address: str) -> None:
    print(f"open this address in a browser on this machine:\n{escape(address)}", file=sys.stderr, flush=True)
    if _has_desktop():
        webbrowser.open(address)
