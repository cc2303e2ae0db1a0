"""What tests and programs that embed a runtime may replace in it."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.backends.external.contract import Agent
from buddy.config.resolve import Resolved
from buddy.daemon.boot_clock import boot_time
from buddy.log.contract import Log
from buddy.models.contract import Provider
from buddy.protocol.ids import Ids, Ulids
from buddy.protocol.shapes import BootTime
from buddy.tools.source import ToolSource

if TYPE_CHECKING:
    from buddy.log.postgres.postgres import PostgresLog


def unix_ms() -> int:
    return time.time_ns() // 1_000_000


class RuntimeOverrides(Struct, frozen=True):
    """What can be replaced: the clocks, the ids, the log, the models, the memory's directory; more tools and agents.

    With another log, there is no memory unless `memory_dir` is set. `shared` is a log that other daemons use, too: the
    state directory is used for the rest. `agents` are functions that make an agent, by the
    name that sessions ask for (`options.agentRuntime`).
    """

    clock: Callable[[], int] = unix_ms
    ids: Ids = Ulids()
    log: Log | None = None
    provider: Callable[[Resolved], Provider] | None = None
    memory_dir: Path | None = None
    tools: tuple[ToolSource, ...] = ()
    agents: Mapping[str, Callable[[], Agent]] = {}
    boot_clock: Callable[[], BootTime | None] = boot_time
    shared: "PostgresLog | None" = None
