"""`buddy doctor`: check everything a run needs and say, line by line, what is wrong and what to do about it.

Invariants: checking changes nothing; each result is a word, and colour only repeats it; a key is never shown.
"""

import asyncio
import os
import platform
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec

from buddy.approvals.dead_rules import find_dead_rules
from buddy.approvals.rules import read_rules
from buddy.approvals.trust import Trust
from buddy.cli.checkpoints_check import check_checkpoints
from buddy.cli.doctor_check import Check
from buddy.cli.doctor_extensions import check_extensions
from buddy.cli.doctor_profiles import check_profiles
from buddy.cli.doctor_reach import check_reach
from buddy.cli.endpoint_check import check_endpoint
from buddy.cli.mcp_check import check_servers, find_servers
from buddy.cli.options import Options
from buddy.cli.storage_check import check_storage
from buddy.client.blocking import BlockingClient, connect_unix
from buddy.config.load import load_config
from buddy.config.paths import config_file, socket_path
from buddy.config.places import Places, find_places
from buddy.config.resolve import LOCAL, NothingConfigured, Resolved, has_local, resolve_profile
from buddy.config.settings import LOCAL_URL, Config
from buddy.daemon.agent_definitions import AgentDefinitions, untrusted_agents
from buddy.daemon.agents import Agents
from buddy.daemon.opening import log_url_of, open_shared_log
from buddy.daemon.projects import Projects, ProjectsInMemory
from buddy.errors import BuddyError, UserError
from buddy.log.interrupted import find_interrupted
from buddy.log.room import MIN_FREE
from buddy.log.sqlite import DATABASE
from buddy.log.state_use import check_restored
from buddy.log.statedir import check_private
from buddy.memory.schema import FILE as MEMORY
from buddy.memory.schema import check_version, open_index_reader
from buddy.models.login.issuer import find_issuer
from buddy.models.login.tokens import AuthFile
from buddy.models.script import load_script
from buddy.protocol.ids import Ulids
from buddy.scrub import Scrubber
from buddy.targets.choose import probe_levels
from buddy.terminal.escape import escape, escape_json
from buddy.terminal.style import Style, style_of
from buddy.version import VERSION

MCP_SECONDS = 10.0
WANTED_SQLITE = (3, 51, 3)
PROGRAMS = ("bash", "tmux", "rg", "ssh", "podman", "docker", "bwrap")


def doctor(options: Options) -> int:
    scrubber = Scrubber()
    scrubber.register_environment(os.environ)
    checks = [_scrub(check, scrubber) for check in _checks(options, scrubber)]
    failed = any(check.status == "fail" for check in checks)
    if options.json:
        text = msgspec.json.encode({"ok": not failed, "checks": checks}).decode()
        print(escape_json(text) if sys.stdout.isatty() else text)
    else:
        _print(checks, style_of(sys.stdout, os.environ))
    return 1 if failed else 0


def _checks(options: Options, scrubber: Scrubber) -> Iterator[Check]:
    yield Check("buddy", "ok", f"{VERSION}, Python {platform.python_version()} at {sys.executable}")
    yield check_sqlite(apsw.sqlite_lib_version())
    places = find_places(os.environ, options.state_dir, options.socket)
    yield check_state(places.state_dir)
    yield check_space(places.state_dir)
    try:
        config = load_config(os.environ, Path(options.config) if options.config else None, places)
    except BuddyError as error:
        yield _failure("config", error)
    else:
        yield check_storage(places.state_dir, config.storage)
        yield check_checkpoints(places.state_dir, config.checkpoints)
        yield from _memory(config, places.state_dir / MEMORY)
        yield _configuration(config, places)
        yield from _shared_log(log_url_of(config, os.environ, options.log))
        yield from _rules(config)
        yield _model(config, scrubber, places)
        yield from check_profiles(config, os.environ, places.config_dir / "auth.json", scrubber)
        yield from _local_model(config)
        yield from _agents(config, places)
        yield from _sub_agents(options, places)
        yield from _mcp_servers(config, places, options, scrubber)
        yield from check_reach(config.notify)
    yield from check_extensions(places, Path(options.directory).resolve())
    yield from _daemon(options)
    yield from _programs()
    yield from _sandboxes()
    yield _interrupted(places.state_dir / DATABASE)


def check_sqlite(version: str) -> Check:
    """Older versions can lose the end of a write-ahead log."""
    if tuple(int(part) for part in version.split(".")[:3]) < WANTED_SQLITE:
        wanted = ".".join(map(str, WANTED_SQLITE))
        return Check("sqlite", "warn", f"{version}, older than {wanted}", f"pip install 'apsw>={wanted}'")
    return Check("sqlite", "ok", f"{version} (apsw)")


def check_state(directory: Path) -> Check:
    """Whether the state directory is private, or can be created."""
    try:
        if not os.path.lexists(directory):
            above = next(parent for parent in directory.parents if parent.exists())
            if not os.access(above, os.W_OK | os.X_OK):
                raise UserError(
                    f"{directory} cannot be created: {above} is not writable", hint="choose --state-dir DIR"
                )
            return Check("state", "ok", f"{directory} (created when needed)")
        check_private(directory)
        if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
            raise UserError(f"{directory} is not readable and writable for you", hint=f"chmod 700 {directory}")
        check_restored(directory)
        mode = stat.S_IMODE(directory.stat().st_mode)
    except OSError as error:
        return Check("state", "fail", f"{directory}: {error.strerror}", "choose --state-dir DIR")
    except BuddyError as error:
        return _failure("state", error)
    if mode & 0o077:
        return Check("state", "warn", f"{directory} can be read by others (mode {mode:04o})", f"chmod 700 {directory}")
    return Check("state", "ok", f"{directory} (mode {mode:04o}, yours)")


def check_space(directory: Path) -> Check:
    """Below the limit, no call with side effects is started."""
    above = next((place for place in (directory, *directory.parents) if place.exists()), Path("/"))
    try:
        found = os.statvfs(above)
    except OSError as error:
        return Check("space", "fail", f"{above}: {error.strerror}")
    free = found.f_bavail * found.f_frsize
    mib = 1024 * 1024
    if free < MIN_FREE:
        wanted = f"at least {MIN_FREE // mib} MiB are needed"
        return Check("space", "fail", f"{free // mib} MiB free, {wanted}", f"free some disk on {above}")
    return Check("space", "ok", f"{free // mib} MiB free")


def _configuration(config: Config, places: Places) -> Check:
    if config.source:
        mode = stat.S_IMODE(Path(config.source).stat().st_mode)
        if mode & 0o077 and any(profile.api_key for profile in config.models.values()):
            text = f"{config.source} contains an API key and can be read by others (mode {mode:04o})"
            return Check("config", "warn", text, f"chmod 600 {config.source}")
        return Check(
            "config",
            "ok",
            f"{config.source} ({len(config.models)} {'profile' if len(config.models) == 1 else 'profiles'})",
        )
    return Check("config", "info", f"no {places.config_dir / 'buddy.toml'}; defaults and environment are used")


def _memory(config: Config, path: Path) -> Iterator[Check]:
    """Only what is wrong with the index of past conversations."""
    if not config.memory.enabled or not path.exists():
        return
    try:
        db = open_index_reader(path)
        try:
            check_version(db, path)
        finally:
            db.close()
    except UserError as error:
        yield Check("memory", "warn", str(error), error.hint)
    except apsw.Error as error:
        yield Check("memory", "warn", f"{path} cannot be read: {error}", "it is rebuilt from the log when it is used")


def _rules(config: Config) -> Iterator[Check]:
    """Rules that allow nothing, although somebody may rely on them."""
    try:
        for dead in find_dead_rules(read_rules(config.permissions, config.source).rules):
            yield Check("rules", "warn", f"{dead.rule.rule_id} ({dead.rule.describe()}) {dead.text}", dead.instead)
    except BuddyError as error:
        yield _failure("rules", error)


def _mcp_servers(config: Config, places: Places, options: Options, scrubber: Scrubber) -> Iterator[Check]:
    """Each server that sessions in this folder would use."""
    found = find_servers(config, places, options.directory)
    if found.untrusted:
        yield Check("mcp", "info", ".mcp.json is ignored until the folder is trusted", "buddy trust .")
    definitions = found.definitions
    if not definitions.servers and not definitions.problems:
        return
    for report in asyncio.run(check_servers(definitions, scrubber, places, MCP_SECONDS)):
        if report.is_up:
            text = f"{report.name}: {len(report.tools)} tools, {report.server}"
            yield Check("mcp", "ok", text)
        else:
            said = f"; it wrote: {report.stderr.strip()[-200:]}" if report.stderr.strip() else ""
            hint = f"buddy mcp {'login' if report.state == 'needs_login' else 'test'} {report.name}"
            yield Check("mcp", "warn", f"{report.name}: {report.problem}{said}", hint)


def _local_model(config: Config) -> Iterator[Check]:
    """The built-in model, where `make local` has installed it."""
    if not has_local():
        return
    if LOCAL in config.models:
        text = f"the built-in model is installed, but [models.{LOCAL}] in {config.source} takes its name"
        yield Check("local model", "info", text, f"rename [models.{LOCAL}] to use the built-in one")
    else:
        yield Check("local model", "ok", f'installed; buddy exec --profile {LOCAL} "hello"')


def _daemon(options: Options) -> Iterator[Check]:
    """The running daemon: its version and its configuration, where they are not this command's."""
    connection = connect_unix(socket_path(os.environ, options.state_dir, options.socket))
    if connection is None:
        yield Check("daemon", "info", "not running (started when needed)")
        return
    client = BlockingClient(connection, "cli", VERSION)
    try:
        hello = client.hello()
    finally:
        client.close()
    theirs, own = hello.get("config"), config_file(os.environ, options.config)
    version = hello.get("runtimeVersion", "of unknown version")
    if version != VERSION:
        text = f"running, but version {version}, and this is {VERSION}"
        yield Check("daemon", "warn", text, "buddy daemon restart; its runs continue")
    elif theirs is not None and own and os.path.realpath(own) != os.path.realpath(theirs):
        text = f"running with the configuration {theirs or 'none'}, and this shell's is {own}"
        yield Check("daemon", "warn", text, "new sessions run without it; buddy daemon stop ends it")
    else:
        yield Check("daemon", "ok", f"running, version {version}, configuration {theirs or 'none'}")


def _model(config: Config, scrubber: Scrubber, places: Places) -> Check:
    try:
        resolved = resolve_profile(config, os.environ)
        resolved.check_key()
        scrubber.register(resolved.api_key)
        if resolved.api == "scripted":
            return _scripted(resolved)
        if resolved.auth == "login":
            return check_login(resolved, AuthFile(places.config_dir / "auth.json"))
        if resolved.base_url == LOCAL_URL:
            return Check("model", "ok", f"{resolved.profile}/{resolved.model}: runs on this machine")
        status, text, hint = check_endpoint(resolved)
    except NothingConfigured as error:
        also = f'; or use the built-in one: buddy exec --profile {LOCAL} "hello"' if has_local() else ""
        return Check("model", "fail", str(error), error.hint + also)
    except BuddyError as error:
        return _failure("model", error)
    return Check("model", status, f"{resolved.profile}/{resolved.model}: {text}", hint)


def check_login(resolved: Resolved, auth: AuthFile) -> Check:
    """Whether there are tokens. Their server is not asked, because that could refresh them."""
    name, issuer = f"{resolved.profile}/{resolved.model}", find_issuer(resolved.issuer, resolved.client_id)
    tokens = auth.read(issuer.name)
    if tokens is None:
        return Check("model", "fail", f"{name}: not logged in to {issuer.url}", f"buddy login {resolved.profile}")
    mode = stat.S_IMODE(auth.path.stat().st_mode)
    if mode & 0o077:
        return Check("model", "warn", f"{auth.path} is open to others (mode {mode:04o})", f"chmod 600 {auth.path}")
    left = tokens.expires_at_unix - time.time()
    if left <= 0 and not tokens.refresh_token:
        return Check("model", "fail", f"{name}: the login has run out", f"buddy login {resolved.profile}")
    word = f"for {left / 60:.0f} more minutes" if left > 0 else "to be renewed by the next run"
    return Check("model", "ok", f"{name}: logged in to {issuer.url}, {word}")


def _scripted(resolved: Resolved) -> Check:
    if resolved.script is None:
        return Check("model", "ok", f"{resolved.profile}: scripted, echoes each message")
    load_script(resolved.script)
    return Check("model", "ok", f"{resolved.profile}: scripted by {resolved.script}")


def _agents(config: Config, places: Places) -> Iterator[Check]:
    """The agent that sessions get by default, and for each other whether it could be used."""
    agents = Agents(config, places, os.environ, Projects(ProjectsInMemory(), Ulids()), lambda: True)
    default, found = config.server.agent_runtime, agents.missing()
    if default in found:
        yield Check("agent", "fail", f"{default} is the default: {found[default][0]}", found[default][1])
    else:
        yield Check("agent", "ok", f"{default} is the default")
    there = [name for name in agents.names() if name not in found]
    away = [f"{name} ({why})" for name, (why, _) in found.items()]
    text = f"available: {', '.join(('native', *there))}" + (f"; not: {', '.join(away)}" if away else "")
    yield Check("agents", "info", text)


def _sub_agents(options: Options, places: Places) -> Iterator[Check]:
    """The definitions of sub-agents for this directory, and what is wrong with some of them."""
    root, trust = os.path.realpath(options.directory), Trust(places.state_dir)
    definitions = AgentDefinitions(str(places.config_dir), os.environ.get("HOME", ""), trust.is_trusted)
    found = definitions.at(root)
    names = ", ".join(sorted(agent.name for agent in found.agents))
    yield Check("sub-agents", "ok" if names else "info", names or "none defined; a model can delegate to general")
    for problem in found.problems:
        yield Check("sub-agents", "warn", problem)
    for folder in untrusted_agents(root, trust.is_trusted):
        yield Check("sub-agents", "info", f"those of {folder} are not used: it is not trusted", f"buddy trust {folder}")


def _shared_log(url: str | None) -> Iterator[Check]:
    """The database of a shared log, if one is configured."""
    if url is None:
        return

    async def look() -> str:
        log = await open_shared_log(url, lambda: 0)
        await log.close()
        return log.address.shown

    try:
        yield Check("log", "ok", f"shared, at {asyncio.run(look())}")
    except BuddyError as error:
        yield _failure("log", error)


def _programs() -> Iterator[Check]:
    found = {name: shutil.which(name) for name in PROGRAMS}
    there = [name for name, path in found.items() if path]
    missing = [name for name, path in found.items() if not path]
    if not found["bash"]:
        yield Check("bash", "fail", "not found; it runs the commands", "install bash")
    yield Check("programs", "info", ", ".join(there) + (f"; not found: {', '.join(missing)}" if missing else ""))


def _sandboxes() -> Iterator[Check]:
    """Each sandbox level, what provides it on this machine, and which one is the default."""
    levels = asyncio.run(probe_levels())
    for level, word in levels.items():
        missing = word.startswith("unavailable")
        hint = "install bubblewrap" if missing and level == "confined" else ""
        yield Check(f"sandbox {level}", "ok" if word.startswith(("proven", "no confinement")) else "info", word, hint)
    is_confined = levels["confined"].startswith("proven")
    default = "confined, policy auto" if is_confined else "host, policy ask: every call above read-only is asked"
    yield Check("sandbox default", "ok" if is_confined else "warn", default)


def _interrupted(database: Path) -> Check:
    try:
        if not database.exists():
            return Check("sessions", "ok", "none yet")
        waiting = find_interrupted(database, int(time.time() * 1000))
    except OSError as error:
        return Check("sessions", "fail", f"{database}: {error.strerror}")
    except apsw.Error as error:
        return Check("sessions", "fail", f"{database} cannot be read: {error}", "move it away, or restore it")
    except BuddyError as error:
        return _failure("sessions", error)
    if not waiting:
        return Check("sessions", "ok", "no interrupted runs")
    names = ", ".join(waiting[:3]) + (f" and {len(waiting) - 3} more" if len(waiting) > 3 else "")
    return Check("sessions", "warn", f"interrupted: {names}", f"buddy resume {waiting[0]}")


def _failure(name: str, error: BuddyError) -> Check:
    return Check(name, "fail", str(error), error.hint if isinstance(error, UserError) else "")


def _scrub(check: Check, scrubber: Scrubber) -> Check:
    return Check(check.name, check.status, scrubber.text(check.text), scrubber.text(check.hint))


def _print(checks: list[Check], style: Style) -> None:
    paint = {"ok": style.green, "info": style.dim, "warn": style.yellow, "fail": style.red}
    for check in checks:
        print(f"{paint[check.status](f'{check.status:<4}')}  {check.name:<17}  {escape(check.text)}")
        if check.hint:
            print(f"{'':<25}hint: {escape(check.hint)}")
