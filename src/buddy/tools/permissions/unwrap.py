"""What a wrapped command really runs, for rules that deny: `env X=1 nice curl …` is `curl …`, and so is `bash -c`."""

import re
from collections.abc import Iterator

from buddy.tools.permissions.grammar import Words, parse

MAX_DEPTH = 8

_SHELLS = re.compile(r"(?:ba|da|a|z|k|mk|c|tc|fi)?sh[0-9.-]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*")
# How many words of its own a wrapper takes before the command, options aside.
_WRAPPERS: dict[str, int] = {
    **dict.fromkeys(
        ("env", "sudo", "doas", "nohup", "nice", "ionice", "setsid", "stdbuf", "time", "command", "exec"), 0
    ),
    **dict.fromkeys(("builtin", "xargs", "watch", "unshare", "busybox", "toybox", "eval", "parallel", "strace"), 0),
    **dict.fromkeys(("ltrace", "script"), 0),
    **dict.fromkeys(("timeout", "chroot", "chrt", "taskset", "flock"), 1),
}
_TAKES_VALUE = frozenset({f"-{letter}" for letter in "ugnskIPLdaChpcEoe"})


def layers(words: Words, depth: int = 0) -> Iterator[Words]:
    """The command itself, and every command that it wraps."""
    yield words
    name = words[0].rsplit("/", 1)[-1]
    if name != words[0]:
        yield (name, *words[1:])
    if depth >= MAX_DEPTH:
        return
    if _SHELLS.fullmatch(name) or name == "eval":
        for text in words[1:]:
            for inner in parse(text).found:
                yield from layers(inner, depth + 1)
    if name in _WRAPPERS:
        for rest in _tails(words[1:], _WRAPPERS[name]):
            yield from layers(rest, depth + 1)
    if name == "find":
        yield from _found_commands(words, depth)


def _tails(words: Words, own: int) -> Iterator[Words]:
    """Where the wrapped command may begin: after options, their values and the wrapper's own words; all readings."""
    index = 0
    while index < len(words) and (words[index].startswith("-") or _ASSIGNMENT.fullmatch(words[index])):
        takes_value = words[index] in _TAKES_VALUE
        index += 1
        if takes_value and index < len(words):
            yield words[index:]
            index += 1
    if index + own < len(words):
        yield words[index + own :]


def _found_commands(words: Words, depth: int) -> Iterator[Words]:
    for index, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir") and index + 1 < len(words):
            yield from layers(words[index + 1 :], depth + 1)
