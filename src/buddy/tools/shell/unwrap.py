"""Every command that a text may run, for rules that deny: `env X=1 nice curl …` is `curl …`, and so is `bash -c`.

Invariants: this errs on the side of finding. Where anything runs code, each place in each text may be where a
command begins.
"""

import asyncio
import re
from collections.abc import Iterator
from itertools import chain

from buddy.tools.shell.dangerous import may_run_others
from buddy.tools.shell.grammar import LONG, Parsed, Words, parse, unescape

MAX_DEPTH = 8
MAX_STARTS = 60_000
TAIL = 16

_NAME = re.compile(r"[A-Za-z0-9_./+-]+")
# What a program reads as white space, or a shell as the end of a name, although it looks like a part of a word.
_BREAKS = re.compile(r"\\[abefnrtv]|:[-=+?]")
_QUOTES = re.compile(r"\\\n|\$?[\"']|\\(?=.)|\$\(\)|``")
_SHELL = re.compile(r"['\"\\$`;|&<({]")


def possible(command: str, parsed: Parsed) -> Iterator[Words]:
    """The commands themselves, and all that they may wrap; the same one may come more than once."""
    # What the grammar does not understand, a shell may.
    torn = _torn(command) if parsed.has_error else ()
    for count, words in enumerate(chain(torn, _all(parsed, 0, {}))):
        if count >= MAX_STARTS:
            return
        yield words
        name = words[0].rsplit("/", 1)[-1]
        if name and name != words[0]:
            yield (name, *words[1:])


def _torn(command: str) -> Iterator[Words]:
    """All that may begin a command, as it is written and without its quotes."""
    yield from _tails(tuple(command.split()))
    yield from _tails(tuple(re.split(r"[\s,{}]+", command)))
    for text in dict.fromkeys((command, _QUOTES.sub("", command), _QUOTES.sub("", unescape(command)))):
        yield from _starts(text)


async def read_ahead(command: str) -> None:
    """Read a long command, and all that it may wrap, in a thread; what is read here is remembered.

    A hostile one takes the grammar seconds, in which others must be served.
    """
    if len(command) > LONG:
        await asyncio.to_thread(lambda: sum(1 for _ in possible(command, parse(command))))


def is_open(words: Words) -> bool:
    """Whether it may run others, or is not known before it is expanded."""
    return not _NAME.fullmatch(words[0]) or may_run_others(words)


def _all(parsed: Parsed, depth: int, seen: dict[str, int]) -> Iterator[Words]:
    """`seen` are the texts that were looked into, and how deep: not again for each command that has them in it."""
    yield from parsed.found
    for value in parsed.values:
        # What is assigned may be run by a program that reads the variable: a pager, an editor, the next command.
        yield from _starts(value)[:1]
    if not any(map(is_open, set(parsed.found))):
        return
    for words in parsed.found:
        yield from _tails(words)
    for text in (*(word for words in parsed.found for word in words), *parsed.values, *parsed.bodies):
        yield from _starts(text)
        if bundle := re.match(r"-[A-Za-z]{1,4}", text):
            for end in range(2, bundle.end() + 1):
                yield from _starts(text[end:])
        if depth < seen.get(text, MAX_DEPTH) and _SHELL.search(text):
            seen[text] = depth
            yield from _all(parse(text), depth + 1, seen)


def _starts(text: str) -> list[Words]:
    return _tails(tuple(_NAME.findall(_BREAKS.sub(" ", text))))


def _tails(words: Words) -> list[Words]:
    return [words[index : index + TAIL] for index in range(len(words))]
