"""How the patterns of rules match: words and paths by globs, hosts by their normal spelling.

Invariants: a pattern that allows matches exactly what it says, and its wildcards stand for ordinary words alone: never
for an option or for anything else that a program takes for more than data. One that denies matches every way to write
it.
"""

import fnmatch
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

from buddy.approvals.globs import glob_matches, is_wild
from buddy.characters import find_deceptive
from buddy.errors import ToolError
from buddy.tools.fetch.addresses import normal_host
from buddy.tools.shell.grammar import Words
from buddy.tools.shell.programs import names_of

MAX_NAME = 256
_EXPANDED = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|`[^`]*`|\$[\w@*#?$!-]|\{[^{}]*\}")
# What may stand for other characters, in a rule or in a command.
_OPEN = re.compile(r"[$`{*?\[]")
_UPWARDS = re.compile(r"(?:^|[/=])\.\.(?:/|$)")
# Words that are more than data, whatever the program.
_SPECIAL_WORDS = (
    (re.compile(r"-"), "the option"),
    (re.compile(r"@"), "the response file"),
    (re.compile(r"[A-Za-z_][\w.-]*(?:\[[^\]]*\])?\+?="), "the assignment"),
    (re.compile(r"[\w+.-]*::"), "the transport"),
)


def words_match(pattern: Sequence[str], words: Words) -> bool:
    """One glob per word; a final `**` matches any further words. `objection` says what wildcards do not stand for."""
    if pattern and pattern[-1] == "**":
        pattern, words = pattern[:-1], words[: len(pattern) - 1]
    return len(pattern) == len(words) and all(map(glob_matches, pattern, words))


def objection(pattern: Sequence[str], words: Words) -> str | None:
    """Why the wildcards of a pattern do not stand for these words, although they look alike; None if they do."""
    found = (_object(wanted, word) for wanted, word in _pairs(pattern, words) if is_wild(wanted))
    return next((why for why in found if why is not None), None)


def _object(wanted: str, word: str) -> str | None:
    if wanted.startswith("-"):
        if not is_option_with_value(wanted):
            return f"a wildcard never stands for the name of an option ({wanted})"
        return _object_to_text(word.partition("=")[2])
    if "/" in wanted and _UPWARDS.search(word):
        return "it contains a path that leads out of the folder in the rule"
    return _object_to_text(word)


def _object_to_text(text: str) -> str | None:
    kind = next((kind for test, kind in _SPECIAL_WORDS if test.match(text)), None)
    if kind is not None:
        return f"a wildcard never stands for {kind} {text[:80]}; write it in the rule, spelled out in full"
    why = find_deceptive(text)
    return f"a wildcard never stands for {text[:80]!r}: {why}" if why else None


def is_option_with_value(wanted: str) -> bool:
    """Whether a word of a rule is one option in full, with a wildcard for its value alone: `--format=*`."""
    name, equals, _value = wanted.partition("=")
    return bool(equals) and re.fullmatch(r"--[A-Za-z0-9][\w-]*", name) is not None


def _pairs(pattern: Sequence[str], words: Words) -> Iterator[tuple[str, str]]:
    """Each word with what matches it."""
    for index, word in enumerate(words):
        yield pattern[min(index, len(pattern) - 1)], word


def words_may_match(pattern: Sequence[str], words: Words) -> bool:
    """The same for rules that deny: letter case and the order and number of options do not matter."""
    name = may_name(pattern[0], words[0])
    if name is None:
        return False
    wanted = tuple(normal_text(word).casefold() for word in pattern)
    given = (name, *(normal_text(word).casefold() for word in words[1:]))
    if _loosely(wanted, given):
        return True
    if len(wanted) == 1:
        return len(given) == 1
    plain = [word for word in wanted[1:] if not word.startswith("-") and word != "**"]
    left = _after(plain, given[1:])
    if left is None or not _has_options([word for word in wanted[1:] if word.startswith("-")], given[1:]):
        return False
    return wanted[-1] == "**" or not _plain_in(left)


def may_name(wanted: str, given: str) -> str | None:
    """The name by which a word may be this program; None if it is another."""
    wanted, given = wanted.casefold(), given.casefold()
    if wanted not in given and not _OPEN.search(wanted) and not _OPEN.search(given):
        return None  # most words of a long text
    return next((name for name in names_for(given) if _may_be(wanted, name)), None)


def names_for(given: str) -> tuple[str, ...]:
    """`gcc-12` is `gcc`, too; a denial of one is for both."""
    return (given, *names_of(given)) if len(given) < MAX_NAME else (given,)


def _loosely(pattern: Sequence[str], words: Words) -> bool:
    """As `words_match`, but a wildcard stands for anything."""
    if pattern[-1] == "**":
        pattern, words = pattern[:-1], words[: len(pattern) - 1]
    return len(pattern) == len(words) and all(map(fnmatch.fnmatchcase, words, pattern))


def _may_be(name: str, given: str) -> bool:
    """Whether a word may name this program; a wildcard in the command may expand to it."""
    if fnmatch.fnmatchcase(given, name):
        return True
    expanded = expansion_of(given)
    return expanded is not None and fnmatch.fnmatchcase(name, expanded)


def expansion_of(given: str) -> str | None:
    """The glob of what the name in a command may expand to; None if it is what it says.

    A variable, a substitution or braces may be anything, if the rest of the word says something.
    """
    if len(given) >= MAX_NAME:
        return None
    spelled = _EXPANDED.sub("*", given)
    if spelled != given and len(re.sub(r"[^a-z0-9]", "", spelled)) < 2:
        return None
    return spelled if re.search(r"[*?\[]", spelled) else None


def _after(plain: Sequence[str], given: Words) -> Words | None:
    """What follows the plain words of a pattern; options and their possible values may come between them."""
    met, is_value = 0, False
    for index, word in enumerate(given):
        if met == len(plain):
            return given[index:]
        if fnmatch.fnmatchcase(word, plain[met]):
            met, is_value = met + 1, False
        elif word.startswith("-"):
            is_value = "=" not in word
        elif is_value:
            is_value = False
        else:
            return None
    return () if met == len(plain) else None


def _plain_in(words: Words) -> bool:
    """Whether any word is neither an option nor possibly the value of one."""
    pairs = zip(("", *words), words, strict=False)
    return any(not (last.startswith("-") or word.startswith("-")) for last, word in pairs)


def _has_options(wanted: Sequence[str], given: Words) -> bool:
    """Whether all these options are present, short ones in any bundle."""
    letters = {letter for word in given if re.match(r"-[^-]", word) for letter in word[1:]}
    names = {word.partition("=")[0] for word in given if word.startswith("-")}
    return all(
        any(_may_be_option(name, option.partition("=")[0]) for name in names)
        or (set(option[1:]) if option[:2] != "--" else set(option[2:3])) <= letters
        for option in wanted
    )


def _may_be_option(given: str, wanted: str) -> bool:
    """Long options may be cut short or have one dash, and many have a letter of their own, usually their first."""
    if fnmatch.fnmatchcase(given, wanted):
        return True
    is_long = len(given.lstrip("-")) > 1 or given.startswith("--")
    return is_long and given != "--" and wanted.lstrip("-").startswith(given.lstrip("-")) and wanted.startswith("--")


def normal_text(text: str) -> str:
    """One of the ways to write the same characters, so that a denial of one holds for all."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def expands_to(glob: str, path: str) -> bool:
    """Whether a wildcard in a command may expand to this path, or to something in or above it; dots are not matched."""
    if not re.search(r"[*?\[]", glob):
        return False
    pairs = zip(glob.split("/"), path.split("/"), strict=False)
    return all(
        fnmatch.fnmatchcase(name, part) and not (name.startswith(".") and part[:1] in "*?[") for part, name in pairs
    )


def host_matches(pattern: str, host: str) -> bool:
    """`*.example.com` matches every name below it; all spellings of a name are equal."""
    name = normalize_host(host)
    if pattern.startswith("*."):
        return name.endswith(f".{normalize_host(pattern[2:])}")
    return name == normalize_host(pattern)


@lru_cache(4096)
def normalize_host(host: str) -> str:
    try:
        return normal_host(host)
    except (ToolError, ValueError):
        return host.rstrip(".").lower()
