"""Finds the rules that could match a call without trying all: each is filed under one thing that a call must have.

Every rule has *needs*: the tool, a word, a name in a path, a host. A call that lacks one of them can't match. The rule
is filed under its rarest need, and a call tries what is filed under each thing that it has. Rules without any need,
such as those that begin with a wildcard, are tried for every call.

Invariants: what is found includes every rule that matches, in the order of the rules; whether one really matches is
decided by the same code that decides without an index.
"""

import fnmatch
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from buddy.approvals.globs import is_wild, literal_text
from buddy.approvals.matching import expansion_of, names_for, normal_text, normalize_host
from buddy.approvals.rule import Rule, Subject
from buddy.tools.shell.grammar import Words
from buddy.tools.shell.mentions import Mentions

Need = tuple[str, str]
"""A kind, and what it is: `("tool", "read_file")`, `("word", "git")`."""

_WILD = re.compile(r"[*?\[]")
# What a name in a rule that denies may stand for besides itself.
_OPEN = re.compile(r"[$`{*?\[]")


class RuleIndex:
    """The rules of one decision; `allows` if it is `allow`, whose words and paths match exactly what they say."""

    def __init__(self, rules: Sequence[Rule], *, allows: bool) -> None:
        self._rules = rules
        self._allows = allows
        self._filed: dict[Need, list[int]] = {}
        self._needless: list[int] = []
        self._heads: dict[str, list[int]] = {}
        self._headless: list[int] = []
        self._file(rules)
        self._kinds = {kind for kind, _ in self._filed}
        self._expands = "path" in self._kinds and not allows
        self._names = [name for kind, name in self._filed if kind == "name"]
        self._tool_lengths = {len(text) for kind, text in self._filed if kind == "tool*"}
        self._host_lengths = {len(text) for kind, text in self._filed if kind == "*.host"}

    def _file(self, rules: Sequence[Rule]) -> None:
        needs = [tuple(_needs(rule, allows=self._allows)) for rule in rules]
        counts = Counter(need for known in needs for need in known)
        for place, (rule, known) in enumerate(zip(rules, needs, strict=True)):
            if not known:
                self._needless.append(place)
                continue
            rarest = min(known, key=counts.__getitem__)
            self._filed.setdefault(rarest, []).append(place)
            if rarest[0] == "path" and not self._allows:
                self._file_head(place, rule.path or "")

    def _file_head(self, place: int, pattern: str) -> None:
        """For commands in which a path has wildcards: they need not name what the rule does, only expand to it."""
        whole = os.path.normpath(pattern)
        head = normal_text(whole.partition("/")[0])
        if not head or head in (".", "..") or head.startswith("~"):
            self._headless.append(place)  # where it begins depends on the workspace
        elif not _WILD.search(head):
            self._heads.setdefault(head, []).append(place)

    def find(self, subject: Subject, named: Mentions, commands: Collection[Words] = ()) -> Iterable[Rule]:
        """The rules to try for a call that names these paths and hosts, and runs these commands."""
        if named.anything or (self._expands and not _is_normal(subject.workspace)):
            return self._rules
        found = set(self._needless)
        for need in self._met(subject, named, commands):
            found.update(self._filed.get(need, ()))
        if self._expands:
            found.update(self._expanded(named))
        return (self._rules[place] for place in sorted(found))

    def _met(self, subject: Subject, named: Mentions, commands: Collection[Words]) -> Iterator[Need]:
        """The needs that a call meets."""
        yield "tool", subject.tool
        yield from (("tool*", subject.tool[:length]) for length in self._tool_lengths)
        yield "target", subject.target
        yield "workspace", subject.workspace.rstrip("/")
        if "path" in self._kinds and named.paths:
            yield from (("path", name) for name in self._path_names(subject, named))
        if "host" in self._kinds or "*.host" in self._kinds:
            yield from self._hosts(named)
        if self._allows:
            yield from (("word", word) for words in commands for word in words)
        else:
            yield from self._names_of({words[0] for words in commands})
            later = {word for words in commands for word in words[1:]}
            yield from (("argument", normal_text(word).casefold()) for word in later)

    def _path_names(self, subject: Subject, named: Mentions) -> set[str]:
        """What is between slashes; a rule may name the workspace as well."""
        texts = (*named.paths, subject.workspace)
        return {name for text in texts for name in (text if self._allows else normal_text(text)).split("/")}

    def _hosts(self, named: Mentions) -> Iterator[Need]:
        for host in map(normalize_host, named.hosts):
            yield "host", host
            yield from (("*.host", host[-length:]) for length in self._host_lengths if length <= len(host))

    def _names_of(self, programs: Iterable[str]) -> Iterator[Need]:
        """The names that a program may have; a wildcard or a variable may stand for any that is known."""
        for name in (name for program in programs for name in names_for(program.casefold())):
            yield "name", name
            glob = expansion_of(name) if _OPEN.search(name) else None
            if glob is not None:
                yield from (("name", known) for known in self._names if fnmatch.fnmatchcase(known, glob))

    def _expanded(self, named: Mentions) -> Iterator[int]:
        """Rules that a path with wildcards may expand to."""
        heads = {normal_text(path).partition("/")[0] for path in named.paths if _WILD.search(path)}
        if heads:
            yield from self._headless
        for glob in heads:
            known = fnmatch.filter(self._heads, glob) if _WILD.search(glob) else (glob,)
            yield from (place for head in known for place in self._heads.get(head, ()))


@lru_cache(1024)
def _is_normal(workspace: str) -> bool:
    """Whether paths of rules begin in the workspace as they are written."""
    return workspace in ("", "/") or os.path.normpath(workspace) == workspace.rstrip("/")


def _needs(rule: Rule, *, allows: bool) -> Iterator[Need]:
    if rule.tool is not None:
        head = _WILD.split(rule.tool, maxsplit=1)[0]
        if head:
            yield ("tool" if head == rule.tool else "tool*"), head
    if rule.target is not None and not _WILD.search(rule.target):
        yield "target", rule.target
    if rule.workspace is not None:
        yield "workspace", rule.workspace.rstrip("/")
    if rule.path is not None:
        names = _names_in(rule.path)
        yield from (("path", name if allows else normal_text(name)) for name in names)
    if rule.host is not None:
        below = rule.host.startswith("*.")
        yield ("*.host", f".{normalize_host(rule.host[2:])}") if below else ("host", normalize_host(rule.host))
    if rule.argv is not None:
        yield from _words_in(rule.argv) if allows else _denied_words_in(rule.argv)


def _names_in(pattern: str) -> Iterator[str]:
    """The names that every path which this matches has, wherever the workspace is.

    Not those before `..`; nor one after `a**/`, which matches the beginning of a name, too. In brackets, a slash may
    be one of the choices, so a pattern with any has no names here.
    """
    if "[" in pattern or "]" in pattern:
        return
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    above = max((place for place, name in enumerate(names) if name == ".."), default=-1)
    before = ""
    for name in names[above + 1 :]:
        is_own = before == "**" or not before.endswith("**")
        if is_own and not _WILD.search(name) and not name.startswith("~"):
            yield name
        before = name


def _words_in(pattern: Words) -> Iterator[Need]:
    yield from (("word", literal_text(word)) for word in pattern if not is_wild(word))


def _denied_words_in(pattern: Words) -> Iterator[Need]:
    """The program and the plain words; options may be written in other ways."""
    name = pattern[0].casefold()
    if not _OPEN.search(name):
        yield "name", name
    for word in (normal_text(word).casefold() for word in pattern[1:]):
        if not word.startswith("-") and not _WILD.search(word):
            yield "argument", word
