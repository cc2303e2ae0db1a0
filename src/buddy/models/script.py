"""The script of a scripted model: replies in order, and replies to messages that match.

A script is TOML or JSON:

    [[replies]]                                # the first reply of the conversation
    text = "I look around first."
    calls = [{ name = "list_files", args = { path = "." } }]

    [[replies]]                                # the second
    text = "Three files."

    [[on]]                                     # replies to a message that matches, instead
    match = "(?i)hello"
    replies = [{ text = "Hello!" }]

Invariants: a script that was loaded can be played: names are known, patterns compile, calls have one kind of
arguments.
"""

import re
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from buddy.errors import UserError
from buddy.models.contract import TokenUsage


class ScriptedCall(Struct, frozen=True, forbid_unknown_fields=True):
    """A tool call: `args` as an object, or `arguments` as the raw text that a model would write."""

    name: str
    args: dict[str, object] | None = None
    arguments: str | None = None

    def __post_init__(self) -> None:
        if self.args is not None and self.arguments is not None:
            raise ValueError("give args or arguments, not both")

    def text(self) -> str:
        if self.arguments is not None:
            return self.arguments
        return msgspec.json.encode(self.args or {}).decode()


class ScriptedError(Struct, frozen=True, forbid_unknown_fields=True):
    """A failure after the reply's text: the first `times` times, or always."""

    message: str
    retryable: bool = False
    times: int | None = None


class ScriptedReply(Struct, frozen=True, forbid_unknown_fields=True):
    """One reply. `delay` is the wait before each piece of its text, in seconds."""

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    delay: float = 0.0
    error: ScriptedError | None = None
    truncated: bool = False
    finish: str | None = None
    usage: TokenUsage | None = None


class Section(Struct, frozen=True, forbid_unknown_fields=True):
    """Replies to user messages in which `match`, a regular expression, is found."""

    match: str
    replies: tuple[ScriptedReply, ...]

    def __post_init__(self) -> None:
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"match is not a regular expression: {error}") from error


class Script(Struct, frozen=True, forbid_unknown_fields=True):
    """All replies. Past the last one the model says "done", or with `echo` what the user said."""

    replies: tuple[ScriptedReply, ...] = ()
    on: tuple[Section, ...] = ()
    echo: bool = False


def load_script(path: Path) -> Script:
    """Read a script: `.json` as JSON (an object, or just the list of replies), anything else as TOML."""
    hint = "a script has [[replies]] with text, thinking, calls, delay, error, truncated, finish, usage; and [[on]]"
    try:
        content = path.read_bytes()
        if path.suffix != ".json":
            return msgspec.convert(tomllib.loads(content.decode()), Script)
        if content.lstrip().startswith(b"["):
            return Script(msgspec.json.decode(content, type=tuple[ScriptedReply, ...]))
        return msgspec.json.decode(content, type=Script)
    except OSError as error:
        raise UserError(f"can't read script {path}: {error.strerror}") from error
    except ValueError as error:
        raise UserError(f"invalid script {path}: {error}", hint=hint) from error
