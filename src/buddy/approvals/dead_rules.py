"""Rules that allow nothing, although somebody may rely on them, and what to write instead.

Invariants: a rule is tried with words that its wildcards could stand for, by the same check that decides on commands,
so what is named here is never used.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from buddy.approvals.globs import glob_matches, is_wild, literal_text
from buddy.approvals.matching import is_option_with_value, words_match
from buddy.approvals.rules import Rule, object_to_wildcards
from buddy.characters import find_deceptive
from buddy.tools.shell.grammar import Words
from buddy.tools.shell.programs import DATA

# Ordinary words, one of which each program takes.
_SAMPLES = ("x", "status", "list", "+x", "https://x.example/x")
_GLOB = re.compile(r"\[[*?\[]\]|\[!?\]?[^\]]*\]|\*+/?|\?")
_ALWAYS = 'or answer "always" when it is asked for'


class DeadRule(Struct, frozen=True):
    """`text` says why the rule matches nothing, `instead` what to write."""

    rule: Rule
    text: str
    instead: str

    def describe(self) -> str:
        return f"rule {self.rule.rule_id} ({self.rule.describe()}) {self.text}; {self.instead}"


def find_dead_rules(rules: Iterable[Rule]) -> list[DeadRule]:
    """Those that allow nothing; rules that deny or ask match more than they say, never less."""
    found = (_check(rule) for rule in rules if rule.decision == "allow")
    return [dead for dead in found if dead is not None]


def _check(rule: Rule) -> DeadRule | None:
    for text in (*(rule.argv or ()), rule.path or "", rule.host or "", rule.cwd or ""):
        if why := find_deceptive(text):
            return DeadRule(rule, f"never matches: {why}", "remove it; such calls always need approval")
    if rule.host is not None and is_wild(rule.host.removeprefix("*.")):
        instead = 'write a name, or "*." and a name: host = "*.example.com"'
        return DeadRule(rule, "never matches: in a host, a wildcard stands only for names below another", instead)
    if rule.argv is None or rule.is_literal:
        return None
    return _check_words(rule, rule.argv)


def _check_words(rule: Rule, pattern: Words) -> DeadRule | None:
    looks_like = [words for words in _samples(pattern) if words_match(pattern, words)]
    objections = [object_to_wildcards(pattern, words) for words in looks_like]
    if None in objections or (not objections and not is_wild(pattern[0])):
        return None
    is_open = pattern[-1] == "**" and not any(map(is_wild, pattern[:-1]))
    shorter = tuple(map(literal_text, pattern[:-1])) if is_open else ()
    is_alive = bool(shorter) and object_to_wildcards(pattern, shorter) is None
    text = f"matches nothing but `{' '.join(shorter)}` itself" if is_alive else "no longer matches anything"
    why = next(iter(objections), f"no program that takes its words for data is called {pattern[0]}")
    return DeadRule(rule, f"{text}: {why}", _instead(pattern))


def _samples(pattern: Words) -> Iterator[Words]:
    """Commands that a pattern looks like."""
    programs = sorted(name for name in DATA if glob_matches(pattern[0], name)) if is_wild(pattern[0]) else [pattern[0]]
    for program in programs:
        for sample in _SAMPLES:
            yield (literal_text(program), *(_fill(word, sample) for word in pattern[1:]))


def _fill(word: str, sample: str) -> str:
    """A word that a pattern matches."""
    if not is_wild(word):
        return literal_text(word)
    if word in ("*", "**"):
        return sample
    return _GLOB.sub(_example, word)


def _example(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith("["):
        return next((one for one in (text[1], "x", "y", "0") if glob_matches(text, one)), text[1])
    return "x/" if text == "**/" else "x"


def _instead(pattern: Sequence[str]) -> str:
    bad = next((word for word in pattern if word.startswith("-") and is_wild(word)), None)
    if bad is not None and not is_option_with_value(bad):
        return f"write each option in full instead of {bad}, in rules of their own"
    if pattern[0] == "git" and len(pattern) > 2 and pattern[1] in ("push", "fetch", "pull", "ls-remote"):
        return f"write the repository: {_toml((*pattern[:2], 'origin', *pattern[2:]))}"
    words = (literal_text(pattern[0]), *("WORD" if is_wild(word) else literal_text(word) for word in pattern[1:]))
    return f"write the exact words of each command, such as {_toml(words)}, {_ALWAYS}"


def _toml(words: Sequence[str]) -> str:
    quoted = (word.replace("\\", "\\\\").replace('"', '\\"') for word in words)
    return "argv = [" + ", ".join(f'"{word}"' for word in quoted) + "]"
