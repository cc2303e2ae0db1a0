"""Rules over parsed commands, paths, hosts and tools. Deny wins over ask, ask over allow, and no rule means no opinion.

What always holds: adding a deny rule never allows more; a chain is allowed only if each of its commands is; what cannot
be proven to be a plain list of words is never allowed by a rule; a path that a rule denies is denied to commands that
name it, too.
"""

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy.errors import ToolError, UserError
from buddy.tools.fetch.addresses import normal_host
from buddy.tools.permissions.dangerous import is_known, runs_code
from buddy.tools.permissions.grammar import MAX_BYTES, Words, parse
from buddy.tools.permissions.named import Named, named_in, relative
from buddy.tools.permissions.unwrap import possible

Decision = Literal["allow", "ask", "deny"]

_CONTEXT = frozenset({"cd", "pushd", "popd", "exec", "set", "shopt", "export", "alias", "unset", "umask", "ulimit"})
MAX_NAME = 256
LEVELS = ("host", "confined", "container")


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[permissions.rules]]`. Every key that is given must match; `argv` has one glob per word."""

    decision: Decision
    tool: str | None = None
    argv: tuple[str, ...] | None = None
    path: str | None = None
    host: str | None = None
    sandbox: Literal["host", "confined", "container"] | None = None
    target: str | None = None
    workspace: str | None = None
    network: bool | None = None

    @property
    def rule_id(self) -> str:
        """The same for the same rule, wherever it stands."""
        return hashlib.sha256(msgspec.json.encode(self.given(), order="sorted")).hexdigest()[:8]

    def given(self) -> dict[str, object]:
        """What it says, as it stands in a file."""
        return {key: value for key, value in msgspec.to_builtins(self).items() if value is not None}

    @property
    def is_literal(self) -> bool:
        """Whether its words say exactly one command."""
        return self.argv is not None and not any(map(_is_wild, self.argv))

    def describe(self) -> str:
        parts = [f"tool {self.tool}"] if self.tool else []
        parts += [" ".join(self.argv)] if self.argv else []
        named = (("path", self.path), ("host", self.host), ("target", self.target), ("workspace", self.workspace))
        parts += [f"{name} {value}" for name, value in named if value]
        parts += [f"{'with' if self.network else 'without'} network"] if self.network is not None else []
        return f"{self.decision} {', '.join(parts) or 'everything'}"


class Subject(Struct, frozen=True):
    """What is to be judged: a call of a tool, and the command, path or host it is about."""

    tool: str
    command: str | None = None
    path: str | None = None
    host: str | None = None
    sandbox: str = "host"
    target: str = "local"
    workspace: str = ""
    cwd: str = "."
    network: bool = False


class Opinion(Struct, frozen=True):
    """What the rules say; `decision` is None where none of them speaks."""

    decision: Decision | None
    why: str
    rule_id: str | None = None


class Rules:
    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)
        self._names_anything = any(rule.path is not None or rule.host is not None for rule in self.rules)

    def judge(self, subject: Subject) -> Opinion:
        return self._command(subject, subject.command) if subject.command is not None else self._plain(subject)

    def _plain(self, subject: Subject) -> Opinion:
        named = Named(
            frozenset() if subject.path is None else frozenset({subject.path}),
            frozenset() if subject.host is None else frozenset({subject.host}),
        )
        for decision in ("deny", "ask", "allow"):
            for rule in self._of(decision, subject, named):
                if rule.argv is None:
                    return Opinion(rule.decision, f"by rule {rule.rule_id}: {rule.describe()}", rule.rule_id)
        return Opinion(None, "no rule speaks of it")

    def _command(self, subject: Subject, command: str) -> Opinion:
        if len(command.encode(errors="surrogatepass")) > MAX_BYTES:
            return Opinion("deny", f"a command of more than {MAX_BYTES // 1024} KiB is never run")
        parsed = parse(command)
        inner = list(possible(command, parsed))
        named = named_in(inner, parsed.files, subject.workspace, subject.cwd) if self._names_anything else Named()
        for decision in ("deny", "ask"):
            for rule in self._of(decision, subject, named):
                if rule.argv is None or any(_may_match(rule.argv, words) for words in inner):
                    return Opinion(rule.decision, f"by rule {rule.rule_id}: {rule.describe()}", rule.rule_id)
        if parsed.plain is None:
            return Opinion("ask" if self.rules else None, f"cannot be proven harmless: {parsed.why}")
        return self._allowed(subject, parsed.plain, has_pipe=parsed.has_pipe)

    def _allowed(self, subject: Subject, commands: Sequence[Words], *, has_pipe: bool) -> Opinion:
        used: list[Rule] = []
        for words in commands:
            fitting = [rule for rule in self._of("allow", subject, Named()) if _matches(rule.argv or ("**",), words)]
            if not fitting:
                return Opinion(None, f"no rule allows {' '.join(words)[:120]}")
            rule, danger = _mildest(fitting, words, has_pipe=has_pipe)
            if danger is None and len(commands) > 1 and words[0] in _CONTEXT:
                danger = f"{words[0]} changes what the other commands mean"
            if danger is not None:
                return Opinion("ask", f"rule {rule.rule_id} would allow it, but {danger}", rule.rule_id)
            used.append(rule)
        ids = "+".join(dict.fromkeys(rule.rule_id for rule in used))
        return Opinion("allow", f"by rule {ids}: {'; '.join(rule.describe() for rule in dict.fromkeys(used))}", ids)

    def _of(self, decision: Decision, subject: Subject, named: Named) -> Iterable[Rule]:
        return (rule for rule in self.rules if rule.decision == decision and _concerns(rule, subject, named))


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
    """The narrowest rule that would allow exactly this, for "always"; None where there is none.

    It holds where this was asked: on this target, with at least this much confinement, and with network only if asked.
    """
    rule = Rule(
        "allow",
        tool=subject.tool,
        sandbox=_sandbox(subject.sandbox),
        target=None if subject.target == "local" else _literal_glob(subject.target),
        network=True if subject.network else None,
    )
    if subject.command is not None:
        parsed = parse(subject.command)
        if parsed.plain is None or len(parsed.plain) != 1:
            return None
        return replace(rule, argv=tuple(_literal_glob(word) for word in parsed.plain[0]))
    if subject.path is not None:
        return replace(rule, path=_literal_glob(subject.path), workspace=subject.workspace or None)
    return replace(rule, host=subject.host) if subject.host is not None else None


def _concerns(rule: Rule, subject: Subject, named: Named) -> bool:
    if rule.tool is not None and not fnmatch.fnmatchcase(subject.tool, rule.tool):
        return False
    if rule.target is not None and not fnmatch.fnmatchcase(subject.target, rule.target):
        return False
    if rule.workspace is not None and rule.workspace != subject.workspace:
        return False
    if rule.argv is not None and subject.command is None:
        return False
    if rule.sandbox is not None and rule.decision == "allow" and _level(subject.sandbox) < _level(rule.sandbox):
        return False
    # Network for a confined command is allowed by a rule that says so, never along with the command.
    wanted = bool(rule.network) if rule.decision == "allow" else rule.network
    if wanted is not None and wanted != subject.network:
        return False
    if rule.path is not None and not _names_path(rule, rule.path, named, subject):
        return False
    return rule.host is None or any(_host_matches(rule.host, host) for host in named.hosts)


def _matches(pattern: Sequence[str], words: Words) -> bool:
    """One glob per word; a last `**` stands for any further words."""
    if pattern and pattern[-1] == "**":
        pattern, words = pattern[:-1], words[: len(pattern) - 1]
    return len(pattern) == len(words) and all(map(fnmatch.fnmatchcase, words, pattern))


def _may_match(pattern: Sequence[str], words: Words) -> bool:
    """The same for rules that deny: letter case does not matter, and a wildcard in the command may be what is meant."""
    wanted, given = [word.casefold() for word in pattern], tuple(word.casefold() for word in words)
    if _matches(wanted, given):
        return True
    is_open = len(given[0]) < MAX_NAME and re.search(r"[*?\[]", given[0]) and fnmatch.fnmatchcase(wanted[0], given[0])
    return bool(is_open) and _matches(["*", *wanted[1:]], given)


def _mildest(fitting: Sequence[Rule], words: Words, *, has_pipe: bool) -> tuple[Rule, str | None]:
    """The rule that has least against a command, and what that is.

    In a pipe even a command that was allowed word for word gets its orders from the one before it.
    """
    judged = [(rule, None if rule.is_literal and not has_pipe else _danger(rule, words)) for rule in fitting]
    return next((one for one in judged if one[1] is None), judged[0])


def _danger(rule: Rule, words: Words) -> str | None:
    """Why a rule with wildcards, or one for a command by itself, does not allow this after all."""
    pattern = rule.argv or ("**",)
    if _is_wild(pattern[0]) and not is_known(words[0]):
        return f"{words[0]} is not a program that a wildcard stands for"
    fixed = next((index for index, word in enumerate(pattern) if _is_wild(word)), len(pattern))
    return runs_code(words, fixed)


def _is_wild(word: str) -> bool:
    return re.search(r"[*?\[]", _ESCAPED.sub("", word)) is not None


def _names_path(rule: Rule, pattern: str, named: Named, subject: Subject) -> bool:
    """A directory is meant with all that is in it, and who names it names that; allowing takes more than its name."""
    wanted = relative(pattern, subject.workspace) + ("/**" if pattern.endswith("/") else "")
    below = ("",) if rule.decision == "allow" else ("", "/")
    return any(_path_matches(wanted, path + end) for path in named.paths for end in below)


def _path_matches(pattern: str, path: str) -> bool:
    """`**` crosses directories, `*` does not; `[*]` is a star."""
    parts = re.split(rf"({_ESCAPED.pattern}|\*\*/?|\*|\?)", pattern)
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    wanted = "".join(spelled.get(part) or re.escape(_ESCAPED.sub(lambda found: found[0][1], part)) for part in parts)
    return re.fullmatch(wanted, path, re.DOTALL) is not None


def _host_matches(pattern: str, host: str) -> bool:
    """`*.example.com` is every name below it; all spellings of a name are that name."""
    name = _spelled(host)
    if pattern.startswith("*."):
        return name.endswith(f".{_spelled(pattern[2:])}")
    return name == _spelled(pattern)


@lru_cache(4096)
def _spelled(host: str) -> str:
    try:
        return normal_host(host)
    except (ToolError, ValueError):
        return host.rstrip(".").lower()


# What stands for itself in a pattern although it is a wildcard.
_ESCAPED = re.compile(r"\[[*?\[]\]")


def _literal_glob(word: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", word)


def _sandbox(level: str) -> Literal["confined", "container"] | None:
    return "confined" if level == "confined" else "container" if level == "container" else None


def _level(name: str) -> int:
    return LEVELS.index(name) if name in LEVELS else 0
