"""The permission rules in force: those of the user's own file, and stricter ones of a trusted folder.

Invariants: the user's file is read again when it has changed, so a revoked rule is gone at the next call (while a rule
is being stored, as soon as that is done); a file that can no longer be read leaves the rules as they were, so that
breaking it removes no denial. If the user has no rules, the code that reads them is loaded at the first call.
"""

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from buddy.approvals.trust import TRUST_FILES, Trust, effects_of
from buddy.config.load import parse_toml
from buddy.config.places import Places
from buddy.config.settings import Config
from buddy.errors import UserError
from buddy.protocol.events import WarningRaised

if TYPE_CHECKING:
    from buddy.approvals.dead_rules import DeadRule
    from buddy.approvals.permissions import Permissions
    from buddy.approvals.rules import Rule, Rules


_TRUST_ENTRIES = tuple(dict.fromkeys(name.partition("/")[0] for name in TRUST_FILES))
MAX_WARNINGS = 5
MANY = 500
"""More rules than this are prepared at the start, as nobody waits for that yet."""
MAX_JOINED = 16
"""Folders with rules of their own, for which those of the user and theirs are kept together."""


class RuleBook:
    def __init__(self, config: Config, places: Places) -> None:
        self.trust = Trust(places.state_dir)
        self._path = Path(config.source) if config.source else places.config_dir / "buddy.toml"
        self._configured = config.permissions
        self._asks_for_shell = config.tools.shell_confirm
        self._stamp = self._stamp_now()
        self._problem = ""
        self._projects: dict[str, tuple[object, tuple[Rule, ...]]] = {}
        self._joined: dict[str, tuple[Rules, tuple[Rule, ...], Rules]] = {}
        self._dead: tuple[Rules, tuple[DeadRule, ...]] | None = None
        self._is_changing = False
        if self._configured:
            self._own = _read(self._configured, self._path)
            if len(self._own.rules) > MANY:
                self._prepare(self._own)

    def configure(self, config: Config) -> None:
        """Follow the configuration after its file was read again."""
        if config.source and Path(config.source) != self._path:
            self._path, self._stamp = Path(config.source), None
        self._configured = config.permissions
        self._asks_for_shell = config.tools.shell_confirm

    @cached_property
    def _own(self) -> "Rules":
        return _read(self._configured, self._path)

    def permissions(self, root: str) -> "Permissions":
        """The rules of one workspace."""
        from buddy.approvals.permissions import Permissions

        return Permissions(root, lambda: self._rules(root), self._remember, asks_for_shell=self._asks_for_shell)

    def notes(self, root: str) -> tuple[WarningRaised, ...]:
        """Warnings about files of the folder that have no effect although somebody may expect one."""
        if not any(os.path.lexists(f"{root}/{name}") for name in _TRUST_ENTRIES):
            return ()
        names = [effect.name for effect in effects_of(root)]
        if not names:
            return ()
        if self.trust.answer(root) is None:
            message = f"{', '.join(names)} is ignored until the folder is trusted"
            return (WarningRaised(code="FOLDER_NOT_TRUSTED", message=message, detail=f"buddy trust {root}"),)
        try:
            found = self.trust.project_rules(root)
        except UserError as error:
            message = f"{error}. Until it is corrected, every call needs approval"
            return (WarningRaised(code="PROJECT_FILE", message=message),)
        if not (found.trusted and found.ignored):
            return ()
        message = f"ignored in the folder's own file, which may only ask and deny: {', '.join(found.ignored)}"
        return (WarningRaised(code="PROJECT_FILE", message=message),)

    def dead_rules(self) -> tuple[WarningRaised, ...]:
        """Warnings about the user's own rules that allow nothing, or cannot be read since they were changed."""
        if not self._configured:
            return ()
        found = self._find_dead(self._current())
        if self._problem:
            return (WarningRaised(code="CONFIG_INVALID", message=self._problem),)
        more = f"and {len(found) - MAX_WARNINGS} more; buddy approvals list" if len(found) > MAX_WARNINGS else None
        shown = [f"{dead.describe()}" for dead in found[:MAX_WARNINGS]]
        return tuple(
            WarningRaised(code="RULE_NEVER_MATCHES", message=text, detail=more if text == shown[-1] else None)
            for text in shown
        )

    def _find_dead(self, rules: "Rules") -> "tuple[DeadRule, ...]":
        """Once for the same rules: each session that starts warns of them."""
        from buddy.approvals.dead_rules import find_dead_rules

        if self._dead is None or self._dead[0] is not rules:
            self._dead = rules, tuple(find_dead_rules(rules.rules))
        return self._dead[1]

    def _prepare(self, rules: "Rules") -> None:
        """Do now what the next call and the next session would wait for."""
        rules.prepare()
        self._find_dead(rules)

    def is_closed(self, root: str, path: str) -> bool:
        """Whether a rule denies reading this file of a workspace."""
        return self.permissions(root).is_closed(path)

    def _rules(self, root: str) -> "Rules":
        from buddy.approvals.rules import Rules

        own, project = self._current(), self._project_rules(root)
        if not project:
            return own
        known = self._joined.get(root)
        if known is None or known[0] is not own or known[1] is not project:
            known = self._joined[root] = own, project, Rules((*own.rules, *project))
            if len(self._joined) > MAX_JOINED:
                del self._joined[next(iter(self._joined))]
        return known[2]

    def _project_rules(self, root: str) -> "tuple[Rule, ...]":
        stamp = self.trust.stamp(root)
        known = self._projects.get(root)
        if known is None or known[0] != stamp:
            known = self._projects[root] = stamp, self._read_project(root)
        return known[1]

    def _read_project(self, root: str) -> "tuple[Rule, ...]":
        from buddy.approvals.rules import Rule

        try:
            return _read({"rules": list(self.trust.project_rules(root).rules)}).rules
        except UserError:
            # It was trusted to be stricter, but how is unknown now: so ask about everything.
            return (Rule("ask"),)

    def _current(self) -> "Rules":
        stamp = self._stamp_now()
        if stamp != self._stamp and not self._is_changing:
            self._own = self._read()
            self._stamp = stamp
        return self._own

    def _read(self) -> "Rules":
        self._problem = ""
        try:
            document = parse_toml(self._path.read_text()) if self._path.exists() else {}
            return _read(msgspec.convert(document.get("permissions", {}), dict[str, object]), self._path)
        except UserError as error:
            self._problem = f"{error}. Until it is corrected, the previous rules apply"
        except (OSError, ValueError, msgspec.ValidationError):
            pass  # reported when the complete file is read
        return self._own

    def _remember(self, rule: "Rule") -> None:
        from buddy.approvals.rule_file import add_rule
        from buddy.approvals.rules import is_replaced

        if rule in self._current().rules:
            return
        # In a thread: calls that are judged meanwhile must not wait for the file, which may be long.
        self._is_changing = True
        try:
            add_rule(self._path, rule.as_table(), lambda old: is_replaced(old, rule))
            stamp, own = self._stamp_now(), self._read()
            self._prepare(own)
            self._own, self._stamp = own, stamp
        finally:
            self._is_changing = False

    def _stamp_now(self) -> tuple[int, int] | None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - before every call, and half as long
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size


def _read(table: Mapping[str, object], path: Path | None = None) -> "Rules":
    from buddy.approvals.rules import read_rules

    return read_rules(table, str(path or ""))
