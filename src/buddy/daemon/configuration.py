"""The runtime's configuration, read again when its file has changed.

Invariants: code that needs it asks for `current`, so a session that starts sees the file as it is now, and a run keeps
what it started with; the file is looked at once in an iteration of the event loop, however many parts ask; a file that
can no longer be read leaves everything as it was, and `problem` says why; the keys of new profiles are registered as
secrets before anybody can use them.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from buddy.config.load import ConfigFile, load_file
from buddy.config.resolve import configured_keys, resolve_profile
from buddy.config.server_address import without_credentials
from buddy.config.settings import Config
from buddy.errors import UserError
from buddy.protocol.events import WarningRaised
from buddy.scrub import Scrubber

log = logging.getLogger("buddy.daemon")

Find = Callable[[], ConfigFile | None]
"""Finds the configuration file; UserError if it cannot be used."""


class Stamp(Struct, frozen=True):
    path: Path
    modified_ns: int
    size: int
    inode: int


class Configuration:
    def __init__(self, config: Config, env: Mapping[str, str], scrubber: Scrubber, find: Find | None = None) -> None:
        """Without `find`, the configuration never changes."""
        self.problem = ""
        self.on_change: Callable[[Config], None] = lambda _: None
        self._config = self._started_with = config
        self._env = env
        self._scrubber = scrubber
        self._find = find
        self._stamp: Stamp | None = None
        self._stamp = self._stamp_now() if find else None
        self._is_fresh = find is None
        self._register()

    @property
    def current(self) -> Config:
        """The configuration as the file has it now; the last one that could be read if it is broken."""
        if not self._is_fresh:
            self._refresh()
        return self._config

    @property
    def env(self) -> Mapping[str, str]:
        return self._env

    def notes(self) -> tuple[WarningRaised, ...]:
        """Warnings that what a person edited last is not in force: it has a mistake, or it needs a restart."""
        if self.problem:
            message = f"{self.problem}. Until it is corrected, the previous configuration is used"
            return (WarningRaised(code="CONFIG_INVALID", message=message),)
        if self.needs_restart:
            return (WarningRaised(code="RESTART_NEEDED", message=self.needs_restart),)
        return ()

    @property
    def needs_restart(self) -> str:
        """Which tables differ from what the daemon was started with, and what to do; empty if none does."""
        before, now = self._started_with, self._config
        is_changed = {"[memory]": before.memory != now.memory, "[limits]": before.limits != now.limits}
        changed = [table for table, is_different in is_changed.items() if is_different]
        if not changed:
            return ""
        has = "has" if len(changed) == 1 else "have"
        where = f" in {now.source}" if now.source else ""
        return f"{' and '.join(changed)}{where} {has} changed. To apply it, restart the daemon: buddy daemon restart"

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variables that profiles read their keys from."""
        named = (profile.api_key_env for profile in self.current.models.values())
        return tuple(sorted({name for name in named if name}))

    def describe(self) -> str:
        """Which file, which profiles, and the model that a session gets if it names none."""
        config = self._config
        try:
            active = resolve_profile(config, self._env)
            place = f" at {without_credentials(active.base_url)}" if active.base_url else ""
            model = f"{active.profile} ({active.model or 'no model named'}{place})"
        except UserError as error:
            model = f"none: {error}"
        profiles = ", ".join(config.models) or "none"
        return f"{config.source or 'no file'}; profiles: {profiles}; model: {model}"

    def _refresh(self) -> None:
        with suppress(RuntimeError):  # metrics are collected in another thread, which has no loop
            asyncio.get_running_loop().call_soon(self._expire)
            self._is_fresh = True
        stamp = self._stamp_now()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            config = load_file(stamp.path) if stamp else Config()
        except UserError as error:
            self.problem = str(error)
            log.warning("configuration not changed: %s", error)
            return
        self._config, self.problem = config, ""
        self._register()
        log.info("configuration read again from %s", self.describe())
        if self.needs_restart:
            log.warning("%s", self.needs_restart)
        self.on_change(config)

    def _expire(self) -> None:
        self._is_fresh = False

    def _register(self) -> None:
        for key in configured_keys(self._config, self._env):
            self._scrubber.register(key)

    def _stamp_now(self) -> Stamp | None:
        """What the file is like now; None if there is none. One that may not be used counts as unchanged."""
        try:
            found = self._find() if self._find else None
        except UserError as error:
            self.problem = str(error)
            return self._stamp
        except OSError:
            return None
        if found is None:
            return None
        status = found.status
        return Stamp(found.path, status.st_mtime_ns, status.st_size, status.st_ino)
