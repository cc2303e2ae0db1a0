"""How the patterns of rules match: words and paths by globs, hosts by their normal spelling.

Invariants: a pattern that allows matches exactly what it says; one that denies matches every way to write it.
"""

import fnmatch
import re
from collections.abc import Sequence
from functools import lru_cache

from buddy.errors import ToolError
from buddy.tools.fetch.addresses import normal_host
from buddy.tools.shell.grammar import Words

MAX_NAME = 256
_EXPANDED = re.compile(r"\$\{[^}]*\}|\$\([^)]*\)|`[^`]*`|\$[\w@*#?$!-]|\{[^{}]*\}")
# A wildcard in brackets stands for itself.
_ESCAPED = re.compile(r"\[[*?\[]\]")


def words_match(pattern: Sequence[str], words: Words) -> bool:
    """One glob per word; a final `**` matches any further words."""
    if pattern and pattern[-1] == "**":
        pattern, words = pattern[:-1], words[: len(pattern) - 1]
    return len(pattern) == len(words) and all(map(fnmatch.fnmatchcase, words, pattern))


def words_may_match(pattern: Sequence[str], words: Words) -> bool:
    """The same for rules that deny: letter case and the order and number of options do not matter."""
    if not _may_be(pattern[0].casefold(), words[0].casefold()):
        return False
    wanted, given = tuple(word.casefold() for word in pattern), tuple(word.casefold() for word in words)
    if words_match(wanted, given):
        return True
    if len(wanted) == 1:
        return len(given) == 1
    plain = [word for word in wanted[1:] if not word.startswith("-") and word != "**"]
    left = _after(plain, given[1:])
    if left is None or not _has_options([word for word in wanted[1:] if word.startswith("-")], given[1:]):
        return False
    return wanted[-1] == "**" or not _plain_in(left)


def _may_be(name: str, given: str) -> bool:
    """Whether a word may name this program; a wildcard in the command may expand to it.

    So may a variable, a substitution or braces, if the rest of the word says something.
    """
    if fnmatch.fnmatchcase(given, name):
        return True
    if len(given) >= MAX_NAME:
        return False
    spelled = _EXPANDED.sub("*", given)
    if spelled != given and len(re.sub(r"[^a-z0-9]", "", spelled)) < 2:
        return False
    return re.search(r"[*?\[]", spelled) is not None and fnmatch.fnmatchcase(name, spelled)


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
    return all(
        any(fnmatch.fnmatchcase(word.partition("=")[0], option.partition("=")[0]) for word in given)
        or (option[:2] != "--" and set(option[1:]) <= letters)
        for option in wanted
    )


def is_wild(word: str) -> bool:
    return re.search(r"[*?\[]", _ESCAPED.sub("", word)) is not None


def literal_glob(word: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", word)


def path_matches(pattern: str, path: str) -> bool:
    """`**` crosses directories, `*` does not; `[*]` is a star."""
    parts = re.split(rf"({_ESCAPED.pattern}|\*\*/?|\*|\?)", pattern)
    spelled = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    wanted = "".join(spelled.get(part) or re.escape(_ESCAPED.sub(lambda found: found[0][1], part)) for part in parts)
    return re.fullmatch(wanted, path, re.DOTALL) is not None


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
    name = _normalize_host(host)
    if pattern.startswith("*."):
        return name.endswith(f".{_normalize_host(pattern[2:])}")
    return name == _normalize_host(pattern)


@lru_cache(4096)
def _normalize_host(host: str) -> str:
    try:
        return normal_host(host)
    except (ToolError, ValueError):
        return host.rstrip(".").lower()
