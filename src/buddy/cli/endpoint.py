"""What this shell says about the model, sent to the runtime with every session; nothing is parsed here.

Invariants: a configuration file that is not the runtime's is named on stderr; keys go over the owner's socket only.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any

from buddy.cli.options import Options
from buddy.config.environment import endpoint_of, offered_endpoint
from buddy.config.log_url import shown_url
from buddy.config.paths import config_file
from buddy.terminal.escape import escape


def endpoint_for_start(key_variables: "Iterable[str] | None") -> dict[str, Any]:
    """The `endpoint` of a new session, with the keys that the runtime's profiles read from the environment."""
    return endpoint_of(os.environ, key_variables or ())


def endpoint_for_attach(key_variables: "Iterable[str] | None") -> dict[str, Any]:
    return offered_endpoint(os.environ, key_variables or ())


def named_log(options: Options) -> str | None:
    """The shared log that the command line or the environment names; None leaves it to the runtime."""
    return options.log or os.environ.get("BUDDY_LOG") or None


def has_other_log(options: Options, theirs: str | None) -> bool:
    """Whether this command means another log than the daemon's; says so."""
    named = named_log(options)
    if named is None or shown_url(named) == theirs:
        return False
    shown, other = escape(shown_url(named)), escape(theirs or "its own")
    print(f"note: the log named here is {shown}, the daemon's is {other}; running without the daemon", file=sys.stderr)
    return True


def has_other_config(options: Options, theirs: str | None) -> bool:
    """Whether this command means another configuration file than the daemon's; says so."""
    own = config_file(os.environ, options.config)
    if theirs is None or not own or (theirs and os.path.realpath(own) == os.path.realpath(theirs)):
        return False
    print(
        f"note: this shell's configuration is {escape(own)}, the daemon's is {escape(theirs or 'none')}; "
        "running without the daemon",
        file=sys.stderr,
    )
    return True
