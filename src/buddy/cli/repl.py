"""Bare `buddy`, and `resume` on a terminal: the REPL as a client of the daemon, which is started when needed.

Invariants: quitting stops nothing that the daemon runs; the editor and its libraries are loaded only if there is a
terminal.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from buddy.cli.connect import async_client, offer_endpoint
from buddy.cli.continuing import check_fixed, check_no_run_flags
from buddy.cli.endpoint import endpoint_for_start, has_other_config, has_other_log
from buddy.cli.folder_trust import ask_for_trust
from buddy.cli.known_secrets import known_secrets
from buddy.cli.options import Options
from buddy.cli.session_options import (
    apply_configured,
    is_default_level,
    level_of,
    pane_of,
    policy_of,
    session_payload,
    target_of,
    workspace_of,
)
from buddy.cli.session_reader import read_lines
from buddy.cli.settings import places_of, read_config
from buddy.client.bodies import read_full_body
from buddy.client.client import Client
from buddy.client.core import Fields
from buddy.client.socket import SocketLink, connect_unix
from buddy.client.steps import find_session
from buddy.config.resolve import configured_keys, profile_names, resolve_profile
from buddy.config.settings import Config
from buddy.errors import ProtocolError, UserError
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody
from buddy.protocol.requests import StartSession
from buddy.targets.confine.deferred import prove
from buddy.targets.confine.verdict import read_verdict
from buddy.terminal.clipboard_image import remove_saved
from buddy.terminal.current_session import CurrentSession, SessionAccess, SessionFacts
from buddy.terminal.escape import escape
from buddy.terminal.settings import BuddyProgram, DisplayOptions, ProfileDetails, Profiles, TerminalSettings
from buddy.terminal.style import Style, style_of
from buddy.version import VERSION

if TYPE_CHECKING:
    from buddy.terminal.history import ScrubbedHistory

# The daemon may be restarted, upgraded or debugged: the REPL waits for it.
PATIENCE = 86_400.0
CHOOSE = ""
"""Instead of a session's id: let the person choose one."""


class DaemonLink:
    """Connects to the daemon and notifies the REPL when the connection is lost or back."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.changed: Callable[[bool], None] = lambda _: None

    async def connect(self) -> SocketLink:
        self.changed(True)
        link = await connect_unix(self._socket)
        self.changed(False)
        return link


def repl(options: Options) -> int:
    """Start a new session, or continue the last one, with the prompt as the first message."""
    if options.image:
        options.prompt = _with_images(options)
    _check_pane(options)
    if options.last:
        check_fixed(options)
        check_no_run_flags(options, "start without it; /approve and /model change it there")
        return _run(options, "last")
    resolve_profile(read_config(options), os.environ, options.profile, options.model).check_key()
    apply_configured(options)
    return _run(options, None)


def _with_images(options: Options) -> str:
    """The first message with its images, which are named by their paths, as if they had been dropped."""
    from buddy.client.image_paths import quote_path
    from buddy.client.images import read_images

    read_images(options.image or [])  # says now what is wrong with one
    said = [options.prompt] if options.prompt else []
    return "\n".join((*said, *map(quote_path, options.image or [])))


def resume_here(options: Options) -> int:
    """Open the REPL on a session that exists."""
    if not options.last and not options.session_id:
        if _is_dumb():
            hint = "buddy resume ID, or buddy resume --last; see 'buddy session list'"
            raise UserError("no session given", hint=hint)
        return _run(options, CHOOSE)
    return _run(options, "last" if options.last else options.session_id)


def _check_pane(options: Options) -> None:
    """Refuse the pane that commands are typed into: this program would talk to itself."""
    if not os.environ.get("TMUX_PANE") or options.no_tmux:
        return
    from buddy.targets.choose import current_tmux_window
    from buddy.targets.tmux.pane import WINDOW

    if current_tmux_window().endswith(f":{WINDOW}"):
        raise UserError("commands run in this pane", hint="start buddy in another terminal, or with --no-tmux")


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _is_dumb() -> bool:
    """Whether the terminal only shows lines, so that nothing can be edited or drawn."""
    return os.environ.get("TERM", "") in ("", "dumb")


def _run(options: Options, wanted: str | None) -> int:
    ask_for_trust(options)
    config = read_config(options)

    async def work() -> int:
        async with _connect(options) as (client, daemon_link):
            level = await asyncio.to_thread(_find_level, options)
            access = _session_access(client, options, level)
            session = CurrentSession(client, access, _initial_facts(options, config, level))
            settings = _settings(options, config)
            if has_terminal() and not _is_dumb():
                return await _on_terminal(options, session, settings, daemon_link, wanted)
            return await _in_lines(options, session, settings, wanted)

    try:
        return asyncio.run(work())
    finally:
        remove_saved()


async def _on_terminal(
    options: Options,
    session: CurrentSession,
    settings: TerminalSettings,
    daemon_link: DaemonLink,
    wanted: str | None,
) -> int:
    from buddy.terminal.greeting import farewell, greeting
    from buddy.terminal.repl import Repl
    from buddy.terminal.screen import BatchedOutput, Screen

    colour = settings.display.color
    style = style_of(sys.stderr, os.environ) if colour else Style(on=False)
    screen = Screen(BatchedOutput(sys.stderr, colour=style.on))
    answer = None if sys.stdout.isatty() else _answer
    terminal = Repl(session, settings, screen, style, _history(options), answer)
    daemon_link.changed = terminal.set_connection_lost
    _print_all([*greeting(session, VERSION, style, screen.columns, is_new=wanted is None), ""])
    if wanted not in (None, CHOOSE):
        await session.open(await session.access.find(wanted))
    await terminal.run("/resume" if wanted == CHOOSE else options.prompt)
    _print_all(farewell(session, style))
    return 0


async def _in_lines(options: Options, session: CurrentSession, settings: TerminalSettings, wanted: str | None) -> int:
    from buddy.terminal.greeting import farewell, greeting
    from buddy.terminal.plain_repl import WIDTH, PlainRepl

    style = style_of(sys.stderr, os.environ)
    terminal = PlainRepl(session, settings, style, sys.stdout, sys.stderr, has_person=has_terminal())
    if has_terminal():
        _print_all([*greeting(session, VERSION, style, WIDTH, is_new=wanted is None), ""])
    if wanted is not None:
        await terminal.switch_session(await session.access.find(wanted))
    code = await terminal.run(options.prompt)
    if has_terminal():
        _print_all(farewell(session, style))
        return 0
    if session.session_id:
        print(f"session {session.session_id}", file=sys.stderr)
    return code


def _print_all(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


@asynccontextmanager
async def _connect(options: Options) -> AsyncGenerator[tuple[Client, DaemonLink], None]:
    daemon_link = DaemonLink(places_of(options).socket)
    if not options.config:
        link = await _connect_daemon(options)
        async with Client(link, "cli", VERSION, reconnect=daemon_link.connect, patience=PATIENCE) as client:
            theirs = client.runtime
            is_other = has_other_config(options, theirs.config if theirs else None)
            if not is_other and not has_other_log(options, theirs.log if theirs else None):
                offer_endpoint(client)
                yield client, daemon_link
                return
    async with async_client(options, "cli", needs_own_config=True) as client:
        offer_endpoint(client)
        yield client, daemon_link


async def _connect_daemon(options: Options) -> SocketLink:
    """Connect to the daemon, starting it if it is not running."""
    socket = places_of(options).socket
    try:
        return await connect_unix(socket)
    except OSError:
        from buddy.cli.daemon import launch

        await asyncio.to_thread(launch, options)
        return await connect_unix(socket)


def _find_level(options: Options) -> str | None:
    """The sandbox level to request. Slow the first time: what is announced was tested."""
    level = level_of(options)
    if level != "confined" or not is_default_level(options):
        return level
    state = places_of(options).state_dir
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    if read_verdict(str(state)) is None:
        prove(str(state))
    return level_of(options)


def _session_access(client: Client, options: Options, level: str | None) -> SessionAccess:
    async def start() -> str:
        try:
            return await start_at(level)
        except ProtocolError as error:
            if error.code != "SANDBOX_UNAVAILABLE" or not (is_default_level(options) and level == "confined"):
                raise
            print(f"! Commands are not confined here: {escape(error.message)}", file=sys.stderr)
            return await start_at("host")

    async def start_at(level: str | None) -> str:
        # A shared pane cannot be confined.
        wants_pane = has_terminal() and pane_of(options) is None and not options.no_tmux and level != "confined"
        payload = session_payload(options, "interactive", level, _policy(options, level))
        payload["options"]["endpoint"] = endpoint_for_start(client.runtime.key_variables if client.runtime else None)
        return await _start(client, payload, wants_pane=wants_pane)

    async def find(wanted: str) -> str:
        return await client.perform(find_session(wanted, options.directory))

    async def read_full(event: Event) -> EventBody | None:
        return await client.perform(read_full_body(event))

    async def export(session_id: str, path: str) -> int:
        return await _export(client, session_id, path)

    return SessionAccess(start, find, read_full, export)


def _initial_facts(options: Options, config: Config, level: str | None) -> SessionFacts:
    profile, model = _initial_model(options, config)
    policy, root = _policy(options, level), workspace_of(options)
    return SessionFacts(
        profile, model, target_of(options), level or "host", policy=policy, root=root, plan=options.plan
    )


def _settings(options: Options, config: Config) -> TerminalSettings:
    async def restart_daemon() -> None:
        from buddy.cli.daemon import launch

        await asyncio.to_thread(launch, options)

    def models() -> dict[str, str]:
        now = read_config(options)
        return {name: _model_of(now, name) for name in profile_names(now, os.environ)}

    def describe(profile: str, has_pane: bool) -> ProfileDetails:
        try:
            now = read_config(options)
        except UserError:  # reported where a profile is chosen
            now = config
        return replace(_describe(now, profile, has_pane=has_pane), rules=_rules(options))

    display = config.display
    return TerminalSettings(
        display=DisplayOptions(display.color, display.show_tokens, display.show_tool_calls),
        profiles=Profiles(models, describe),
        buddy=BuddyProgram((sys.executable, "-P", "-m", "buddy"), _flags(options), restart_daemon),
        notify=config.notify.terminal,
    )


def _policy(options: Options, level: str | None) -> str:
    policy = policy_of(options, level)
    return "none" if policy == "ask" and options.approve is None and not has_terminal() else policy


def _describe(config: Config, profile: str, *, has_pane: bool) -> ProfileDetails:
    """Slow: it loads the tools to know their names."""
    from buddy.config.server_address import without_credentials
    from buddy.tools.toolbox import PANE_TOOLS, ToolDeps, toolbox

    tools = toolbox(config.tools, ToolDeps()).without(set() if has_pane else PANE_TOOLS)
    try:
        endpoint = without_credentials(resolve_profile(config, os.environ, profile or None).base_url)
    except UserError:
        endpoint = ""
    return ProfileDetails(endpoint, tuple(spec.name for spec in tools.specs()))


def _rules(options: Options) -> tuple[tuple[str, str], ...]:
    from buddy.cli.approvals import rules_here

    try:
        return tuple((rule.rule_id, rule.describe()) for rule in rules_here(options).rules)
    except UserError:  # reported where a rule decides
        return ()


async def _start(client: Client, payload: Fields, *, wants_pane: bool) -> str:
    """Start a session, in a tmux pane that a person can watch if that is available."""
    if wants_pane:
        paned = {**payload, "options": {**payload["options"], "tmux": True}}
        try:
            return (await client.start_session(msgspec.convert(paned, StartSession))).session_id
        except ProtocolError as error:
            if error.code != "SANDBOX_UNAVAILABLE":
                raise
    return (await client.start_session(msgspec.convert(payload, StartSession))).session_id


def _initial_model(options: Options, config: Config) -> tuple[str, str]:
    """The model that a new session would get, for display; a resumed session may have another."""
    try:
        named = options.profile, options.model
        found = resolve_profile(config, os.environ, *named)
    except UserError:
        return "", ""
    return found.profile, found.model


def _model_of(config: Config, name: str) -> str:
    return config.models[name].model if name in config.models else ""


async def _export(client: Client, session_id: str, path: str) -> int:
    """Write every event to a new file, private because it may contain anything that was said."""
    lines = [bytes(line) + b"\n" async for line in read_lines(client, session_id)]

    def write() -> None:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise UserError(f"{path} exists", hint="/export FILE names another") from None
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(lines)

    await asyncio.to_thread(write)
    return len(lines)


def _flags(options: Options) -> tuple[str, ...]:
    places = places_of(options)
    flags = ["--state-dir", str(places.state_dir), "--socket", str(places.socket), "-C", options.directory]
    return (*flags, "--config", options.config) if options.config else tuple(flags)


def _history(options: Options) -> "ScrubbedHistory":
    """The input history, in a file that is private to the user."""
    from buddy.terminal.history import ScrubbedHistory

    places = places_of(options)
    secrets = known_secrets(configured_keys(read_config(options), os.environ))
    path = places.state_dir / "history"
    places.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    return ScrubbedHistory(path, secrets.text)


def _answer(text: str) -> None:
    print(text, flush=True)
