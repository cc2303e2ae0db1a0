"""Opens a runtime with the log that is configured: in the state directory, or shared with other daemons.

Invariant: the driver of a shared log is loaded only where one is named.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from buddy.config.places import Places
from buddy.config.settings import Config
from buddy.daemon.configuration import Find
from buddy.daemon.runtime import Runtime, RuntimeOverrides, unix_ms
from buddy.errors import UserError
from buddy.log.contract import Log
from buddy.log.statedir import make_private_dir

if TYPE_CHECKING:
    from buddy.log.postgres.postgres import PostgresLog


def log_url_of(config: Config, env: Mapping[str, str], named: str | None) -> str | None:
    """The URL of the shared log: from the command line, the environment or the file; None for none."""
    return named or env.get("BUDDY_LOG") or config.log.url or None


def has_password(url: str) -> bool:
    """Whether the URL of a log has a password in it; UserError if it is not the URL of one."""
    from buddy.log.postgres.address import parse_address

    return bool(parse_address(url).passwords)


async def open_runtime(
    config: Config,
    places: Places,
    env: Mapping[str, str],
    *,
    log_url: str | None = None,
    find_config: Find | None = None,
    is_daemon: bool = False,
    clock: Callable[[], int] = unix_ms,
) -> Runtime:
    """A runtime with the log that is named: on the command line, in `BUDDY_LOG` or in the file; else its own."""
    url = log_url_of(config, env, log_url)
    if url is None:
        return Runtime(config, places, env, RuntimeOverrides(clock=clock), find_config=find_config)
    make_private_dir(places.state_dir)  # for what is not in the log
    shared = await open_shared_log(url, unix_ms)  # leases are judged by it
    try:
        runtime = Runtime(config, places, env, RuntimeOverrides(clock=clock, shared=shared), find_config=find_config)
        await runtime.agents.projects.refresh()
        from buddy.daemon.fleet_node import join_fleet

        await join_fleet(runtime, shared, config, is_daemon=is_daemon)
    except BaseException:
        await shared.close()
        raise
    return runtime


async def open_log(config: Config, places: Places, env: Mapping[str, str], named: str | None) -> Log:
    """The log alone, for commands that read it without a runtime."""
    from buddy.log.sqlite import SqliteLog

    url = log_url_of(config, env, named)
    return SqliteLog.open(places.state_dir, unix_ms) if url is None else await open_shared_log(url, unix_ms)


async def open_shared_log(url: str, clock: Callable[[], int]) -> "PostgresLog":
    """The log at a URL, whose driver is an extra."""
    try:
        from buddy.log.postgres.postgres import PostgresLog
    except ModuleNotFoundError as error:
        if error.name != "asyncpg":
            raise
        hint = "pip install '.[postgres]' in Buddy's clone"
        raise UserError("a log in PostgreSQL needs the extra 'postgres', which is not installed", hint=hint) from error
    return await PostgresLog.open(url, clock)
