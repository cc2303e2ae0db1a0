"""Rules over parsed commands, paths, hosts and tools. Deny wins over ask, ask over allow, and no rule means no opinion.

What always holds: adding a deny rule never allows more; a chain is allowed only if each of its commands is; what cannot
be proven to be a plain list of words is never allowed by a rule.
"""

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from buddy.errors import UserError
from buddy.tools.permissions.dangerous import runs_code
from buddy.tools.permissions.grammar import MAX_BYTES, Words, parse
from buddy.tools.permissions.unwrap import layers

Decision = Literal["allow", "ask", "deny"]

_CONTEXT = frozenset({"cd", "pushd", "popd", "exec", "set", "shopt", "export", "alias", "unset", "umask", "ulimit"})
LEVELS = ("host", "confined", "container")


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[permissions.rules]]`. Every key that is given must match; `argv` has one glob per word."""

    decision: Decision
    tool: str | None = None
    argv: tuple[str, ...] | None = None
    path: str | None = None
    host: str | None = None
    sandbox: Literal["host", "confined", "container"] | None = None

    @property
    def rule_id(self) -> str:
        """The same for the same rule, wherever it stands."""
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:8]

    @property
    def is_literal(self) -> bool:
        """Whether its words say exactly one command."""
        return self.argv is not None and not any(re.search(r"[*?\[]", word) for word in self.argv)

    def describe(self) -> str:
        parts = [f"tool {self.tool}"] if self.tool else []
        parts += [" ".join(self.argv)] if self.argv else []
        parts += [f"{name} {value}" for name, value in (("path", self.path), ("host", self.host)) if value]
        return f"{self.decision} {', '.join(parts) or 'everything'}"


class Subject(Struct, frozen=True):
    """What is to be judged: a call of a tool, and the command, path or host it is about."""

    tool: str
    command: str | None = None
    path: str | None = None
    host: str | None = None
    sandbox: str = "host"


class Opinion(Struct, frozen=True):
    """What the rules say; `decision` is None where none of them speaks."""

    decision: Decision | None
    why: str
    rule_id: str | None = None


class Rules:
    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)

    def judge(self, subject: Subject) -> Opinion:
        return self._command(subject, subject.command) if subject.command is not None else self._plain(subject)

    def _plain(self, subject: Subject) -> Opinion:
        for decision in ("deny", "ask", "allow"):
            for rule in self._of(decision, subject):
                if rule.argv is None:
                    return Opinion(rule.decision, f"by rule {rule.rule_id}: {rule.describe()}", rule.rule_id)
        return Opinion(None, "no rule speaks of it")

    def _command(self, subject: Subject, command: str) -> Opinion:
        if len(command.encode(errors="surrogatepass")) > MAX_BYTES:
            return Opinion("deny", f"a command of more than {MAX_BYTES // 1024} KiB is never run")
        parsed = parse(command)
        inner = [layer for words in parsed.found for layer in layers(words)]
        for decision in ("deny", "ask"):
            for rule in self._of(decision, subject):
                if rule.argv is None or any(_matches(rule.argv, words) for words in inner):
                    return Opinion(rule.decision, f"by rule {rule.rule_id}: {rule.describe()}", rule.rule_id)
        if parsed.plain is None:
            return Opinion("ask" if self.rules else None, f"cannot be proven harmless: {parsed.why}")
        return self._allowed(subject, parsed.plain)

    def _allowed(self, subject: Subject, commands: Sequence[Words]) -> Opinion:
        used: list[Rule] = []
        for words in commands:
            rule = next((rule for rule in self._of("allow", subject) if _matches(rule.argv or ("**",), words)), None)
            if rule is None:
                return Opinion(None, f"no rule allows {' '.join(words)[:120]}")
            danger = None if rule.is_literal else runs_code(words)
            if danger is None and len(commands) > 1 and words[0] in _CONTEXT:
                danger = f"{words[0]} changes what the other commands mean"
            if danger is not None:
                return Opinion("ask", f"rule {rule.rule_id} would allow it, but {danger}", rule.rule_id)
            used.append(rule)
        ids = "+".join(dict.fromkeys(rule.rule_id for rule in used))
        return Opinion("allow", f"by rule {ids}: {'; '.join(rule.describe() for rule in dict.fromkeys(used))}", ids)

    def _of(self, decision: Decision, subject: Subject) -> Iterable[Rule]:
        return (rule for rule in self.rules if rule.decision == decision and _concerns(rule, subject))


def read_rules(table: Mapping[str, object]) -> Rules:
    """The rules of a `[permissions]` table."""
    try:
        return Rules(msgspec.convert(table.get("rules", []), tuple[Rule, ...]))
    except msgspec.ValidationError as error:
        raise UserError(
            f"[[permissions.rules]]: {error}",
            hint='such as decision = "allow" with argv = ["git", "log", "**"], or tool, path, host',
        ) from error


def suggest(subject: Subject) -> Rule | None:
    """The narrowest rule that would allow exactly this, for "always"; None where there is none."""
    if subject.command is not None:
        parsed = parse(subject.command)
        if parsed.plain is None or len(parsed.plain) != 1:
            return None
        words = tuple(_literal_glob(word) for word in parsed.plain[0])
        return Rule("allow", tool=subject.tool, argv=words)
    if subject.path is not None:
        return Rule("allow", tool=subject.tool, path=_literal_glob(subject.path))
    return Rule("allow", tool=subject.tool, host=subject.host) if subject.host is not None else None


def _concerns(rule: Rule, subject: Subject) -> bool:
    if rule.tool is not None and not fnmatch.fnmatchcase(subject.tool, rule.tool):
        return False
    if rule.argv is not None and subject.command is None:
        return False
    if rule.sandbox is not None and rule.decision == "allow" and _level(subject.sandbox) < _level(rule.sandbox):
        return False
    if rule.path is not None and (subject.path is None or not _path_matches(rule.path, subject.path)):
        return False
    return rule.host is None or (subject.host is not None and _host_matches(rule.host, subject.host))


def _matches(pattern: Sequence[str], words: Words) -> bool:
    """One glob per word; a last `**` stands for any further words."""
    if pattern and pattern[-1] == "**":
        pattern, words = pattern[:-1], words[: len(pattern) - 1]
    return len(pattern) == len(words) and all(map(fnmatch.fnmatchcase, words, pattern))


def _path_matches(pattern: str, path: str) -> bool:
    """`**` crosses directories, `*` does not."""
    parts = re.split(r"(\*\*/?|\*|\?)", pattern)
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.fullmatch("".join(spelled.get(part, re.escape(part)) for part in parts), path, re.DOTALL) is not None


def _host_matches(pattern: str, host: str) -> bool:
    host, pattern = host.rstrip(".").lower(), pattern.rstrip(".").lower()
    return host.endswith(pattern[1:]) if pattern.startswith("*.") else host == pattern


def _literal_glob(word: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", word)


def _level(name: str) -> int:
    return LEVELS.index(name) if name in LEVELS else 0
