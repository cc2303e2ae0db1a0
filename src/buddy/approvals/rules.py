"""Rules over parsed commands, paths, hosts and tools. Deny wins over ask, ask over allow, and no rule means no opinion.

Invariants: adding a deny rule never allows more; a chain is allowed only if each of its commands is; what cannot be
proven to be a plain list of words is never allowed by a rule; a denied path is also denied to commands that name it.
"""

import fnmatch
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Literal

import msgspec
from msgspec.structs import replace

from buddy.approvals.globs import glob_matches, is_wild, literal_glob
from buddy.approvals.matching import (
    expands_to,
    host_matches,
    may_name,
    normal_text,
    objection,
    words_match,
    words_may_match,
)
from buddy.approvals.questions import Opinion, RuleDecision
from buddy.approvals.rule import Rule, Subject
from buddy.approvals.rule_index import RuleIndex
from buddy.characters import find_deceptive
from buddy.config.validation import explain, origin_of
from buddy.errors import UserError
from buddy.tools.shell.dangerous import runs_code, wildcard_runs_code
from buddy.tools.shell.grammar import MAX_BYTES, Parsed, Words, parse
from buddy.tools.shell.mentions import Mentions, mentions_in, relative
from buddy.tools.shell.programs import takes_data
from buddy.tools.shell.unwrap import MAX_STARTS, is_open, possible

_CONTEXT = frozenset({"cd", "pushd", "popd", "exec", "set", "shopt", "export", "alias", "unset", "umask", "ulimit"})
_DECISIONS: tuple[RuleDecision, ...] = ("deny", "ask", "allow")
LEVELS = ("host", "confined", "container")
FEW = 32
"""Up to this number of rules, trying all is faster than an index."""


class Rules:
    def __init__(self, rules: Iterable[Rule] = (), *, index_above: int = FEW) -> None:
        self.rules = tuple(rules)
        self._is_indexed = len(self.rules) > index_above
        self.denies = any(rule.decision == "deny" for rule in self.rules)
        self._is_strict = any(rule.decision != "allow" for rule in self.rules)
        self._names_anything = any(rule.path is not None or rule.host is not None for rule in self.rules)

    def judge(self, subject: Subject) -> Opinion:
        return self._command(subject, subject.command) if subject.command is not None else self._plain(subject)

    def _plain(self, subject: Subject) -> Opinion:
        named = Mentions(
            frozenset() if subject.path is None else frozenset({subject.path}),
            frozenset() if subject.host is None else frozenset({subject.host}),
        )
        unseen = find_deceptive(subject.path or "") or find_deceptive(subject.host or "")
        outdated: Opinion | None = None
        for decision in _DECISIONS:
            for rule in self._of(decision, subject, named):
                if rule.argv is not None:
                    continue
                why = _redefined(rule, subject) or unseen
                if rule.decision != "allow" or not why:
                    return Opinion(
                        rule.decision, f"by rule {rule.rule_id}: {rule.describe()}", rule.rule_id, by_rule=True
                    )
                # Another rule may still allow it: an old one for the same name must not hide a newer one.
                outdated = outdated or Opinion("ask", f"rule {rule.rule_id} would allow it, but {why}", rule.rule_id)
        return outdated or Opinion(None, "no rule applies")

    def _command(self, subject: Subject, command: str) -> Opinion:
        if len(command.encode(errors="surrogatepass")) > MAX_BYTES:
            return Opinion("deny", f"commands of more than {MAX_BYTES // 1024} KiB are never run")
        parsed = parse(command)
        if self._is_strict and (against := self._against(subject, command, parsed)):
            return against
        if parsed.plain is None:
            return Opinion("ask" if self.rules else None, f"rules can't vouch for it: {parsed.why}")
        return self._allowed(subject, parsed.plain, has_pipe=parsed.has_pipe)

    def _against(self, subject: Subject, command: str, parsed: Parsed) -> Opinion | None:
        """The rule that denies any part of a command, or asks for it."""
        inner = dict.fromkeys(possible(command, parsed))
        by_name: dict[str, list[Words]] = {}
        for words in inner:
            by_name.setdefault(words[0], []).append(words)
        if len(inner) >= MAX_STARTS and self.denies:
            return Opinion("deny", "it contains more commands than deny rules can check")
        named = mentions_in(inner, parsed.files, subject.workspace, subject.cwd) if self._names_anything else Mentions()
        for decision in ("deny", "ask"):
            for rule in self._of(decision, subject, named, inner):
                if rule.argv in (None, ("**",)) or _denies_any(rule.argv or (), by_name):
                    return Opinion(
                        rule.decision, f"by rule {rule.rule_id}: {rule.describe()}", rule.rule_id, by_rule=True
                    )
        return None

    def _allowed(self, subject: Subject, commands: Sequence[Words], *, has_pipe: bool) -> Opinion:
        used: list[Rule] = []
        for words in commands:
            concerned = self._of("allow", subject, Mentions(), (words,))
            fitting = [rule for rule in concerned if words_match(rule.argv or ("**",), words)]
            if not fitting:
                return Opinion(None, f"no rule allows {' '.join(words)[:120]}")
            judged = [(rule, _objection(rule, words, subject, has_pipe=has_pipe)) for rule in fitting]
            rule, danger = next((one for one in judged if one[1] is None), judged[0])
            if danger is None and len(commands) > 1 and words[0] in _CONTEXT:
                danger = f"{words[0]} changes what the other commands mean"
            if danger is not None:
                return Opinion("ask", f"rule {rule.rule_id} would allow it, but {danger}", rule.rule_id)
            used.append(rule)
        ids = "+".join(dict.fromkeys(rule.rule_id for rule in used))
        if changed := _changed(used, subject):
            return Opinion("ask", f"rule {ids} would allow it, but {changed}", ids)
        return Opinion("allow", f"by rule {ids}: {'; '.join(rule.describe() for rule in dict.fromkeys(used))}", ids)

    def _of(
        self, decision: RuleDecision, subject: Subject, named: Mentions, commands: Collection[Words] = ()
    ) -> Iterable[Rule]:
        tried = self._indexes[decision].find(subject, named, commands) if self._is_indexed else self.rules
        return (rule for rule in tried if rule.decision == decision and _concerns(rule, subject, named))

    def prepare(self) -> None:
        """Build the index now, not at the first call."""
        if self._is_indexed:
            self._indexes  # noqa: B018 - it is built when it is first read

    @cached_property
    def denies_commands(self) -> bool:
        """Whether any rule may deny a command; a tool is named exactly here."""
        return any(rule.decision == "deny" and rule.tool in (None, "run_shell") for rule in self.rules)

    @cached_property
    def _indexes(self) -> dict[RuleDecision, RuleIndex]:
        return {decision: self._index(decision) for decision in _DECISIONS}

    def _index(self, decision: RuleDecision) -> RuleIndex:
        return RuleIndex([rule for rule in self.rules if rule.decision == decision], allows=decision == "allow")


def read_rules(table: Mapping[str, object], source: str = "") -> Rules:
    """The rules of a `[permissions]` table; `source` is the file that it is in, for errors."""
    try:
        return Rules(msgspec.convert(table.get("rules", []), tuple[Rule, ...]))
    except msgspec.ValidationError as error:
        wrong = explain(origin_of(source), ("permissions", "rules"), error, Rule)
        example = 'for example decision = "allow" with argv = ["git", "log", "**"], or tool, path, host'
        raise UserError(str(wrong), hint=wrong.hint or example) from error


def suggest(subject: Subject) -> Rule | None:
    """The narrowest rule that would allow exactly this, for "always"; None if there is none.

    It applies only on this target, with at least this much confinement, and with network only if that was asked for.
    """
    rule = Rule(
        "allow",
        tool=subject.tool,
        sandbox="host" if subject.outside else _sandbox(subject.sandbox),
        target=literal_glob(subject.target),
        network=True if subject.network else None,
    )
    if subject.command is not None:
        parsed = parse(subject.command)
        if parsed.plain is None or len(parsed.plain) != 1:
            return None
        words, where = parsed.plain[0], _directory(subject.cwd, subject)
        return replace(
            rule,
            argv=tuple(literal_glob(word) for word in words),
            workspace=subject.workspace or None,
            cwd=None if where == _directory(".", subject) else relative(where, subject.workspace),
            scripts=None if takes_data(words[0]) and runs_code(words) is None else subject.scripts,
        )
    if find_deceptive(subject.path or "") or find_deceptive(subject.host or ""):
        return None
    if subject.path is not None:
        return replace(rule, path=literal_glob(subject.path), workspace=subject.workspace or None)
    if subject.host is not None:
        return replace(rule, host=subject.host)
    return replace(rule, tool=literal_glob(subject.tool), definition=subject.definition) if subject.definition else None


def is_replaced(old: Mapping[str, object], rule: Rule) -> bool:
    """Whether a rule of the file is an earlier "always" for the same tool of the same server, made for what it was."""
    source, _, _ = (rule.definition or "").rpartition("-")
    known = old.get("definition")
    is_of_source = bool(source) and isinstance(known, str) and known.startswith(f"{source}-")
    return is_of_source and {**old, "definition": rule.definition} == rule.as_table() != old


def _redefined(rule: Rule, subject: Subject) -> str:
    is_other = rule.definition is not None and rule.definition != subject.definition
    return "the tool or its server is not what it was when the rule was made" if is_other else ""


def _concerns(rule: Rule, subject: Subject, named: Mentions) -> bool:
    if rule.tool is not None and not fnmatch.fnmatchcase(subject.tool, rule.tool):
        return False
    if rule.target is not None and not fnmatch.fnmatchcase(subject.target, rule.target):
        return False
    if rule.workspace is not None and rule.workspace.rstrip("/") != subject.workspace.rstrip("/"):
        return False
    if (rule.argv is not None or rule.cwd is not None) and subject.command is None:
        return False
    if rule.decision != "allow" and rule.cwd is not None and not _may_run_in(rule.cwd, subject):
        return False
    if rule.sandbox is not None and rule.decision == "allow" and _level(subject.sandbox) < _level(rule.sandbox):
        return False
    # Nor does allowing a command let it out of the sandbox.
    if subject.outside and rule.decision == "allow" and rule.sandbox != "host":
        return False
    # Network for a confined command needs a rule that says so; allowing the command is not enough.
    wanted = bool(rule.network) if rule.decision == "allow" else rule.network
    if wanted is not None and wanted != subject.network:
        return False
    if rule.path is not None and not _names_path(rule, rule.path, named, subject):
        return False
    return rule.host is None or named.anything or any(host_matches(rule.host, host) for host in named.hosts)


def _objection(rule: Rule, words: Words, subject: Subject, *, has_pipe: bool) -> str | None:
    """Why a rule whose words fit does not allow a command after all.

    In a pipe, even a command that is allowed word for word takes its input from the one before it.
    """
    if _directory(rule.cwd or ".", subject) != _directory(subject.cwd, subject):
        return f"it holds in {rule.cwd or 'the root of the workspace'} alone, not in {subject.cwd}"
    if rule.scripts is not None and not set(rule.scripts) <= set(subject.scripts):
        return _CHANGED
    if not rule.is_literal:
        return object_to_wildcards(rule.argv or ("**",), words) or subject.strays or None
    return runs_code(words, len(words)) if has_pipe else None


def object_to_wildcards(pattern: Words, words: Words) -> str | None:
    """Why the wildcards of a rule do not stand for these words, although they look alike."""
    if not takes_data(words[0]):
        return f"{words[0]} may run what its words say, so only a rule with the exact words allows it"
    fixed = next((index for index, word in enumerate(pattern) if is_wild(word)), len(pattern))
    return objection(pattern, words) or wildcard_runs_code(words, fixed)


_CHANGED = "a file that it runs is not what it was when the rule was made"


def _changed(used: Sequence[Rule], subject: Subject) -> str:
    """Whether a command that was allowed with its scripts now runs others."""
    bound = [rule.scripts for rule in used if rule.scripts is not None]
    return _CHANGED if bound and {line for lines in bound for line in lines} != set(subject.scripts) else ""


def _directory(path: str, subject: Subject) -> str:
    return os.path.normpath(os.path.join(subject.workspace or "/", path))  # noqa: PTH118 - words, not yet files


def _may_run_in(cwd: str, subject: Subject) -> bool:
    """Whether any part of a command may run in a directory, for rules that deny or ask."""
    if _directory(cwd, subject) == _directory(subject.cwd, subject):
        return True
    parsed = parse(subject.command or "")
    return parsed.plain is None or any(words[0] in _CONTEXT or is_open(words) for words in parsed.plain)


def _denies_any(pattern: Words, by_name: Mapping[str, Sequence[Words]]) -> bool:
    """Of a long text, each place may begin a command; most are ruled out by the name."""
    named = (words for name, group in by_name.items() if may_name(pattern[0], name) for words in group)
    return any(words_may_match(pattern, words) for words in named)


def _names_path(rule: Rule, pattern: str, named: Mentions, subject: Subject) -> bool:
    """A directory includes its content, so naming it names that, except in a rule that allows."""
    wanted = relative(pattern, subject.workspace) + ("/**" if pattern.endswith("/") else "")
    if rule.decision == "allow":
        return named.anything or any(glob_matches(wanted, path) for path in named.paths)
    wanted, paths = normal_text(wanted), {normal_text(path) for path in named.paths}
    if named.anything or any(glob_matches(wanted, path + end) for path in paths for end in ("", "/")):
        return True
    literal = re.split(r"/?[^/]*[*?\[]", wanted, maxsplit=1)[0]
    return bool(literal) and any(expands_to(path, literal) for path in paths)


def _sandbox(level: str) -> Literal["confined", "container"] | None:
    return "confined" if level == "confined" else "container" if level == "container" else None


def _level(name: str) -> int:
    return LEVELS.index(name) if name in LEVELS else 0
