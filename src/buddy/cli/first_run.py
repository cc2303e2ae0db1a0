"""The first start: write a template, and if no model is configured, look for one that could be used.

Invariants: the search runs only if nothing is configured, and takes less than a second; a person at a terminal can
choose one, and its profile is written; otherwise the result is one error with hints and exit code 64.
"""

import os
import sys

from buddy.cli.options import Options
from buddy.errors import ProtocolError, UserError
from buddy.terminal.escape import escape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from buddy.models.discovery import DiscoveredProfile


def choose_model(options: Options, error: UserError | ProtocolError) -> None:
    """If no model is configured, find one and write its profile; any other error is raised again."""
    if not _is_unconfigured(options, error):
        raise error
    import asyncio

    from buddy.config.resolve import NOTHING_CONFIGURED
    from buddy.config.template import add_profile
    from buddy.models.discovery import discover

    file = config_file(options)
    found = asyncio.run(discover(os.environ))
    chosen = _choose(found) if _can_ask() else None
    if chosen is None:
        raise UserError(NOTHING_CONFIGURED, hint=advice(found, file))
    add_profile(file, chosen.name, chosen.block)
    print(f"wrote [models.{chosen.name}] to {escape(str(file))}", file=sys.stderr)


def _is_unconfigured(options: Options, error: UserError | ProtocolError) -> bool:
    """Whether nothing is configured at all; a runtime only reports that this session has no model."""
    from buddy.cli.settings import read_config
    from buddy.config.resolve import NothingConfigured, resolve_profile

    if isinstance(error, UserError):
        return isinstance(error, NothingConfigured)
    if options.last or options.session or options.session_id:
        return False  # a session that exists has its own model
    config = read_config(options)
    if error.code != "PROVIDER_NOT_CONFIGURED" or (options.agent_runtime or config.server.agent_runtime) != "native":
        return False  # other agents have their own models
    try:
        resolve_profile(config, os.environ, options.profile, options.model)
    except NothingConfigured:
        return True
    except UserError:
        return False
    return False


def config_file(options: Options) -> "Path":
    """The configuration file, whether or not it exists."""
    from pathlib import Path

    from buddy.cli.settings import places_of

    named = options.config or os.environ.get("BUDDY_CONFIG")
    return Path(named).expanduser().absolute() if named else places_of(options).config_dir / "buddy.toml"


def advice(found: "Sequence[DiscoveredProfile]", file: "Path") -> str:
    """What to do, ready to copy."""
    from buddy.config.resolve import has_local

    local = '  buddy exec --profile local "…"  uses the small model that is installed here (no tools)\n'
    if not found:
        return (
            "set BUDDY_BASE_URL, BUDDY_MODEL and BUDDY_API_KEY, or do one of these:\n"
            f"  add [models.NAME] to {file} (examples are in it)\n"
            "  buddy login        uses a ChatGPT account\n"
            "  start Ollama, LM Studio, vLLM or llama.cpp, and Buddy finds it\n"
            f"{local if has_local() else ''}"
            "  buddy demo         needs no model"
        )
    lines = ["found here:"]
    for one in found:
        block = "\n".join(f"    {line}" for line in one.block.splitlines())
        lines += [f"  {one.what}", f"    [models.{one.name}]", block, f"  or once: {one.environment} buddy exec …"]
    also = [f"or without any of them:\n{local.rstrip()}"] if has_local() else []
    return "\n".join([*lines, f"add one of these blocks to {file}", *also])


def prepare(options: Options) -> None:
    """Write a starter configuration if there is none."""
    if options.config or os.environ.get("BUDDY_CONFIG"):
        return
    from buddy.config.places import find_places
    from buddy.config.template import write_template

    places = find_places(os.environ, options.state_dir, options.socket)
    try:
        written = write_template(os.environ, places)
    except OSError as error:
        where = escape(str(places.config_dir / "buddy.toml"))
        print(f"warning: cannot write {where}: {error.strerror}", file=sys.stderr)
    else:
        if written is not None and _can_ask():
            print(f"created a starter config: {escape(str(written))}", file=sys.stderr)


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _choose(found: "Sequence[DiscoveredProfile]") -> "DiscoveredProfile | None":
    """Ask which one to use; None if nothing was found or chosen."""
    import termios

    if not found:
        return None
    print("No model is configured yet. Found here:", file=sys.stderr)
    for number, one in enumerate(found, start=1):
        print(f"  {number}  {escape(one.what)}", file=sys.stderr)
    numbers = {str(number): one for number, one in enumerate(found, start=1)}
    answer = "?"
    while answer and answer not in numbers:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)  # keys typed before the question do not answer it
        print(f"Use which one? [1-{len(found)}, Enter for none] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline().strip()
    return numbers.get(answer)
