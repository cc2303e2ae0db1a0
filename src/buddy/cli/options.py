"""The options of a command: what was given on the command line, by name. And the plainest command line, read at once.

`buddy exec PROMPT` with the flags that scripts use needs no parser: to load and build one takes half as long again as
all else that such a command does itself. What always holds: whatever is not plain is left to the parser, errors and
abbreviations included; the defaults here are the parser's, and a test holds them to it.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace as Options
    from collections.abc import Sequence
else:
    Options = type(sys.implementation)  # types.SimpleNamespace: the same, without the library around it

__all__ = ["Options", "read_plain"]

_NOT_GIVEN = (
    *("prompt", "max_rounds", "approve", "max_turns", "max_cost", "max_time", "max_tokens", "profile", "model"),
    *("agent_runtime", "container", "ssh", "tmux", "sandbox", "config", "state_dir", "socket"),
)
_OFF = ("version", "json", "stream_json", "no_tmux", "plan")
_FORMS = {"--json": "json", "--stream-json": "stream_json"}
_COUNTS = {"--max-rounds": "max_rounds", "--max-tokens": "max_tokens", "--max-turns": "max_turns"}
_VALUES = {
    "--agent-runtime": "agent_runtime",
    "--approve": "approve",
    "--config": "config",
    "--max-time": "max_time",
    "--model": "model",
    "--profile": "profile",
    "--sandbox": "sandbox",
    "--socket": "socket",
    "--state-dir": "state_dir",
    "-C": "directory",
    "-m": "model",
}


def read_plain(arguments: "Sequence[str]") -> "Options | None":
    """The options of a plain `exec`; None where the parser must read them."""
    if not arguments or arguments[0] != "exec":
        return None
    accepted: list[str] = []
    found: dict[str, object] = {"directory": ".", "accept": accepted}
    found |= dict.fromkeys(_NOT_GIVEN) | dict.fromkeys(_OFF, False)
    words = iter(arguments[1:])
    for word in words:
        if word in _VALUES or word in _COUNTS or word == "--accept":
            value = next(words, "-")
            if not value or value.startswith("-") or (word in _COUNTS and not value.isdecimal()):
                return None
            if word == "--accept":
                accepted.append(value)
            elif word in _COUNTS:
                found[_COUNTS[word]] = int(value)
            else:
                found[_VALUES[word]] = value
        elif word == "--plan":
            found["plan"] = True
        elif word in _FORMS and not (found["json"] or found["stream_json"]):
            found[_FORMS[word]] = True
        elif (word == "-" or not word.startswith("-")) and found["prompt"] is None:
            found["prompt"] = word
        else:
            return None
    return Options(**found)
