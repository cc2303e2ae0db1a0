"""The permission rules in effect: the user's own file, and what a trusted folder adds to be stricter.

What always holds: the user's file is read again when it changed, so a rule that was revoked is gone at the next call;
a file that cannot be read any more leaves the rules as they were, so that breaking it takes no denial away.
"""

import tomllib
from pathlib import Path

import msgspec

from buddy.config.places import Places
from buddy.config.rulefile import add_rule
from buddy.config.settings import Config
from buddy.config.trust import Trust
from buddy.errors import UserError
from buddy.sessions.permissions import Permissions
from buddy.tools.permissions.rules import Rule, Rules, read_rules


class RuleBook:
    def __init__(self, config: Config, places: Places) -> None:
        self.trust = Trust(places.state_dir)
        self._path = Path(config.source) if config.source else places.config_dir / "buddy.toml"
        self._own = read_rules(config.permissions)
        self._asks_for_shell = config.tools.shell_confirm
        self._stamp = self._stamp_now()
        self._projects: dict[str, tuple[object, tuple[Rule, ...]]] = {}

    def permissions(self, root: str) -> Permissions:
        """The rules of one workspace."""
        return Permissions(root, lambda: self._rules(root), self._remember, asks_for_shell=self._asks_for_shell)

    def _rules(self, root: str) -> Rules:
        own, project = self._current(), self._project_rules(root)
        return Rules((*own.rules, *project)) if project else own

    def _project_rules(self, root: str) -> tuple[Rule, ...]:
        stamp = self.trust.stamp(root)
        known = self._projects.get(root)
        if known is None or known[0] != stamp:
            known = self._projects[root] = stamp, self._read_project(root)
        return known[1]

    def _read_project(self, root: str) -> tuple[Rule, ...]:
        try:
            return read_rules({"rules": list(self.trust.project_rules(root).rules)}).rules
        except UserError:
            return (Rule("ask"),)  # it was trusted to be stricter, and nobody can tell how: so everything is asked for

    def _current(self) -> Rules:
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._stamp, self._own = stamp, self._read()
        return self._own

    def _read(self) -> Rules:
        try:
            document = tomllib.loads(self._path.read_text()) if self._path.exists() else {}
            return read_rules(msgspec.convert(document.get("permissions", {}), dict[str, object]))
        except (OSError, ValueError, msgspec.ValidationError, UserError):
            return self._own

    def _remember(self, rule: Rule) -> None:
        if rule not in self._current().rules:
            add_rule(self._path, rule.given())

    def _stamp_now(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size
