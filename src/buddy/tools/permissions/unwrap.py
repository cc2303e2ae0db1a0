"""Every command that a text may run, for rules that deny: `env X=1 nice curl …` is `curl …`, and so is `bash -c`.

What always holds: this errs on the side of finding. Where anything runs code, each place in each text may be where a
command begins.
"""

import re
from collections.abc import Iterator

from buddy.tools.permissions.dangerous import runs_code
from buddy.tools.permissions.grammar import Parsed, Words, parse

MAX_DEPTH = 8
MAX_STARTS = 10_000
TAIL = 16

_NAME = re.compile(r"[A-Za-z0-9_./+-]+")
_SHELL = re.compile(r"['\"\\$`;|&<({]")


def possible(command: str, parsed: Parsed) -> Iterator[Words]:
    """The commands themselves, and all that they may wrap; the same one may come more than once."""
    # What the grammar does not understand, a shell may.
    torn = (*_starts(command), *_tails(tuple(re.split(r"[\s,{}]+", command)))) if parsed.has_error else ()
    for count, words in enumerate((*torn, *_all(parsed, 0))):
        if count >= MAX_STARTS:
            return
        yield words
        name = words[0].rsplit("/", 1)[-1]
        if name and name != words[0]:
            yield (name, *words[1:])


def _all(parsed: Parsed, depth: int) -> Iterator[Words]:
    yield from parsed.found
    for value in parsed.values:
        # What is assigned may be run by whoever reads the variable: a pager, an editor, the next command.
        yield from _starts(value)[:1]
    if not any(map(_is_open, set(parsed.found))):
        return
    for words in parsed.found:
        yield from _tails(words)
    for text in (*(word for words in parsed.found for word in words), *parsed.values, *parsed.bodies):
        yield from _starts(text)
        if re.match(r"-[A-Za-z].", text):
            yield from _starts(text[2:])
        if depth < MAX_DEPTH and _SHELL.search(text):
            yield from _all(parse(text), depth + 1)


def _is_open(words: Words) -> bool:
    """Whether it runs code, or is not known before it is expanded."""
    return not _NAME.fullmatch(words[0]) or runs_code(words) is not None


def _starts(text: str) -> list[Words]:
    return _tails(tuple(_NAME.findall(text)))


def _tails(words: Words) -> list[Words]:
    return [words[index : index + TAIL] for index in range(len(words))]
