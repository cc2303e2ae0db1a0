"""How much one reply of a model may contain.

Invariants: a reply never takes more memory than its limits allow, however it is split; a call that exceeds one is kept,
with arguments that say so instead of its own, so that the model gets an error as its result and can do it differently.
"""

from collections.abc import Iterable
from functools import cache

import msgspec

from buddy.long_json import LONG, MAX_DEPTH, MAX_VALUES, examine
from buddy.protocol.shapes import ToolCallItem
from buddy.steps import Steps, encode_text

MAX_TEXT = 16 * 1024 * 1024
"""Characters of a reply's text and reasoning; one that is longer is cut off."""
MAX_DELTA = 1024 * 1024
"""Characters of one delta of text or reasoning; a longer one is cut, and so is the reply with it."""
MAX_ARGUMENTS = 8 * 1024 * 1024
"""Bytes of the arguments of all calls of a reply."""
MAX_NAME = 256
"""Characters of a tool's name and of a call's id; no server uses that many."""
MAX_CALLS = 128
MAX_KEPT_CALLS = 1024
"""Calls of a reply that get a result at all; of more, nothing is kept."""
_KEY = "not_run"
TOO_LONG = (
    f"the arguments of this reply's calls were longer than the limit of {MAX_ARGUMENTS // 1024**2} MiB, so they were "
    "dropped and nothing was run. Send less at once: write a large file in parts, or create it with a command"
)
TOO_MANY = (
    f"one reply may make {MAX_CALLS} calls, and this one was beyond that, so it was not run. Make it again in your "
    "next reply if it is still needed"
)
TOO_DEEP = (
    f"the arguments were nested deeper than {MAX_DEPTH} levels, so they were dropped and nothing was run. Send one "
    "JSON object without such nesting"
)
TOO_FULL = (
    f"the arguments had more than {MAX_VALUES} values, so they were dropped and nothing was run. Send less at once, or "
    "write the values to a file as one text"
)
LONG_NAME = (
    f"the arguments had a name of more than {LONG // 1024} KiB, so they were dropped and nothing was run. Send long "
    "texts as values"
)
_PROBLEMS = (TOO_LONG, TOO_MANY, TOO_DEEP, TOO_FULL, LONG_NAME)


class Size:
    """Counts what a reply contains as it arrives."""

    def __init__(self) -> None:
        self._text = 0
        self._arguments = 0
        self._is_cut = False

    @property
    def is_text_full(self) -> bool:
        return self._is_cut or self._text > MAX_TEXT

    @property
    def is_arguments_full(self) -> bool:
        return self._arguments > MAX_ARGUMENTS

    def cut_delta(self, text: str) -> str:
        """As much of a delta as a reply may contain; nothing that follows one that was too long is read."""
        if len(text) <= MAX_DELTA:
            return text
        self._is_cut = True
        return text[:MAX_DELTA]

    def add_text(self, text: str) -> None:
        self._text += len(text)

    def add_kept(self, size: int) -> None:
        """Something else that must be returned to the server."""
        self._text += size

    def add_arguments(self, text: str) -> None:
        self._arguments += len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def limit_calls(calls: Iterable[ToolCallItem]) -> Steps[tuple[ToolCallItem, ...]]:
    """The calls of a reply as they may be recorded: those beyond a limit say so in their arguments."""
    size = Size()
    limited: list[ToolCallItem] = []
    for number, call in enumerate(calls):
        if number == MAX_KEPT_CALLS:
            break
        size.add_arguments(call.arguments)
        problem = TOO_MANY if number >= MAX_CALLS else TOO_LONG if size.is_arguments_full else ""
        problem = problem or (yield from _examine(call.arguments))
        limited.append(ToolCallItem(call.call_id, call.name, refuse(problem)) if problem else call)
    return tuple(limited)


def _examine(arguments: str) -> Steps[str]:
    """Why arguments should not be decoded; whether they are JSON is not checked."""
    if len(arguments) <= LONG and arguments.count("{") + arguments.count("[") <= MAX_DEPTH:
        return ""
    layout = yield from examine((yield from encode_text(arguments, "surrogatepass")))
    if layout.depth > MAX_DEPTH:
        return TOO_DEEP
    return TOO_FULL if layout.values > MAX_VALUES else LONG_NAME if layout.has_long_name else ""


def refuse(problem: str) -> str:
    """Arguments that stand for those of a call that must not run."""
    return msgspec.json.encode({_KEY: problem}).decode()


def find_refusal(arguments: str) -> str:
    """Why a call must not run; empty if these are its own arguments."""
    return _refusals().get(arguments, "")


@cache
def _refusals() -> dict[str, str]:
    return {refuse(problem): problem for problem in _PROBLEMS}
