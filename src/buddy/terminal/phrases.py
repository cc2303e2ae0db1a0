"""Durations, token counts, plurals, deadlines and approval policies, in few words."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from buddy.protocol.basics import NO_EXPIRY
from buddy.terminal.escape import one_line

if TYPE_CHECKING:
    from buddy.protocol.shapes import Grant

PLAN_MODE = "plan mode, read-only"
_POLICIES = {
    "ask": "ask",
    "auto": "automatic in the sandbox",
    "all": "auto-approve everything",
    "none": "deny everything",
}


def format_duration(seconds: float) -> str:
    """`4s`, `2m 05s`, `1h 02m`."""
    total = int(seconds)
    if total < 60:
        return f"{total}s"
    if total < 3600:
        return f"{total // 60}m {total % 60:02}s"
    return f"{total // 3600}h {total % 3600 // 60:02}m"


def format_deadline(expires_at: int, now: float) -> str:
    """`expires in 4m 59s`; empty if it does not expire. `expires_at` is in milliseconds, `now` in seconds."""
    if expires_at >= NO_EXPIRY:
        return ""
    return f"expires in {format_duration(max(0.0, expires_at / 1000 - now))}"


def grant_text(grant: "Grant", now: float) -> str:
    """`for this session: run_shell make`; with its expiry, if it has one."""
    left = f", {format_deadline(grant.expires_at, now)}" if grant.expires_at else ""
    return f"for {'this session' if grant.scope == 'session' else 'a time'}{left}: {one_line(grant.summary, 200)}"


def format_tokens(tokens: int) -> str:
    """`812`, `4.1k`, `1.2M`."""
    if tokens < 1000:
        return str(tokens)
    return f"{tokens / 1000:.1f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"


def plural(number: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def redacted_text(parts: int) -> str:
    """That guesses were redacted from a message."""
    return (
        f"{plural(parts, 'part')} of this message looked like a secret and {'was' if parts == 1 else 'were'} redacted"
    )


def policy_text(policy: str, until: int | None, now: float, before: str = "ask") -> str:
    """An approval policy in words. `until` is in milliseconds, `now` in seconds, as the clocks have them.

    `before` is the policy that is in force again once `until` has passed.
    """
    if policy == "until" and until is not None:
        seconds = until / 1000 - now
        if seconds > 0:
            return f"auto-approving everything for {format_duration(seconds)}"
        policy = before
    return _POLICIES.get(policy) or f"auto-approve everything for {policy}"


def short_path(path: str) -> str:
    """The path with `~` for the home directory."""
    home = os.path.expanduser("~")  # noqa: PTH111 - a string in, a string out
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


def watch_command(command: str, env: Mapping[str, str]) -> str:
    """How to watch a pane from here: inside the same tmux, the terminal is switched to it instead of being nested."""
    socket = os.path.realpath(env.get("TMUX", "").partition(",")[0])
    default = os.path.realpath(f"{env.get('TMUX_TMPDIR') or '/tmp'}/tmux-{os.getuid()}/default")  # noqa: S108 - tmux's
    is_inside = socket == default and command.startswith("tmux attach ")
    return command.replace("attach", "switch-client", 1) if is_inside else command
