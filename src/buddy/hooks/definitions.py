"""The files that define hooks, read leniently: what other agents' files say beyond our events is left alone.

Invariants: a definition that guards something and cannot be used is kept, and always fails: breaking a file opens
nothing.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args

import msgspec
from msgspec import Struct

from buddy.approvals.hook_files import as_list, as_table
from buddy.backends.hooks import FAIL_CLOSED
from buddy.protocol.hook_events import HookEvent
from buddy.regular_files import read_regular

SECONDS = 60.0
MAX_SECONDS = 600.0
MAX_BYTES = 1024 * 1024
MAX_NAME = 80
EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)

Source = Literal["user", "project"]
_EXACT = re.compile(r"[A-Za-z0-9_|, -]*")


class Hook(Struct, frozen=True):
    """One command at one event. With a `problem`, it is never run, and fails."""

    event: HookEvent
    source: Source
    file: str
    command: str = ""
    matcher: str = ""
    seconds: float = SECONDS
    waits: bool = True
    problem: str = ""

    @property
    def name(self) -> str:
        """What people recognise it by."""
        text = " ".join(self.command.split()) or self.file
        return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"

    def matches(self, names: tuple[str, ...]) -> bool:
        """Whether it is for one of these; an event without a name matches every hook."""
        if self.matcher in ("", "*") or not names:
            return True
        if _EXACT.fullmatch(self.matcher):
            return not {name.strip() for name in re.split("[|,]", self.matcher)}.isdisjoint(names)
        return any(re.search(self.matcher, name) for name in names)


class HookFile(Struct, frozen=True):
    """What one file defines. `problems` are for `buddy doctor`; `others` are events that Buddy does not have."""

    path: str
    hooks: tuple[Hook, ...] = ()
    problems: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def read_hooks(path: str, source: Source, shown: str = "") -> HookFile | None:
    """The hooks of a file; None if it does not exist or defines none."""
    name = shown or path
    try:
        content = read_regular(path, MAX_BYTES + 1, follow=True)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return _broken(name, source, f"{name} cannot be read: {error.strerror}")
    if len(content) > MAX_BYTES:
        return _broken(name, source, f"{name} is larger than {MAX_BYTES // 1024} KiB")
    try:
        document = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        return _broken(name, source, f"{name} is not valid JSON: {error}")
    table = as_table(document.get("hooks", {} if name.endswith("settings.json") else document))
    if table is None:
        return _broken(name, source, f"{name}: 'hooks' must be an object")
    return _read_table(name, source, table) if table else None


def _read_table(name: str, source: Source, table: dict[str, object]) -> HookFile:
    found: list[Hook] = []
    for event in EVENTS:
        found += _read_event(name, source, event, table.get(event, []))
    problems = tuple(dict.fromkeys(hook.problem for hook in found if hook.problem))
    hooks = tuple(hook for hook in found if not hook.problem or hook.event in FAIL_CLOSED)
    return HookFile(name, hooks, problems, tuple(key for key in table if key not in EVENTS))


def _read_event(name: str, source: Source, event: HookEvent, groups: object) -> Iterator[Hook]:
    base = Hook(event, source, name)
    found = as_list(groups)
    if found is None:
        yield msgspec.structs.replace(base, problem=f"{name}: {event} must be a list")
        return
    for group in map(as_table, found):
        entries = as_list(group.get("hooks")) if group is not None else None
        matcher = group.get("matcher", "") if group is not None else ""
        if entries is None or not isinstance(matcher, str | None):
            yield msgspec.structs.replace(base, problem=f"{name}: {event} needs entries with 'matcher' and 'hooks'")
            continue
        problem = _check_matcher(matcher or "")
        for entry in entries:
            hook = _read_entry(msgspec.structs.replace(base, matcher=matcher or ""), as_table(entry))
            if problem and not hook.problem:
                hook = msgspec.structs.replace(hook, matcher="", problem=f"{name}: {event}: {problem}")
            yield hook


def _read_entry(base: Hook, entry: dict[str, object] | None) -> Hook:
    replace, where = msgspec.structs.replace, f"{base.file}: {base.event}"
    if entry is None:
        return replace(base, problem=f"{where}: a hook must be an object")
    kind, command = entry.get("type", "command"), entry.get("command")
    seconds, is_async = entry.get("timeout", SECONDS), entry.get("async", False)
    if kind != "command":
        return replace(base, problem=f"{where}: hooks of type {str(kind)[:40]!r} are not supported, only 'command'")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        return replace(base, problem=f"{where}: 'command' is missing")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        return replace(base, command=command, problem=f"{where}: 'timeout' must be a number of seconds")
    waits = is_async is not True or base.event in FAIL_CLOSED
    return replace(base, command=command, seconds=min(float(seconds), MAX_SECONDS), waits=waits)


def _check_matcher(matcher: str) -> str:
    if _EXACT.fullmatch(matcher) or matcher == "*":
        return ""
    try:
        re.compile(matcher)
    except (re.error, RecursionError, OverflowError) as error:
        return f"the matcher {matcher[:80]!r} is not a regular expression: {error}"
    return ""


def _broken(name: str, source: Source, problem: str) -> HookFile:
    hooks = tuple(Hook(event, source, name, problem=problem) for event in FAIL_CLOSED)
    return HookFile(name, hooks, (problem,))
