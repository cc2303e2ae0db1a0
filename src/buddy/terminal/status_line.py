"""The texts around the input: the prompt before it and the toolbar below it."""

import time

from buddy.terminal.current_session import SessionFacts
from buddy.terminal.escape import one_line


def prompt_text(target: str) -> str:
    """`> ` here, `(ssh user@host)> ` or `(container name)> ` elsewhere."""
    kind, _, name = target.partition(":")
    return f"({one_line(kind, 20)} {one_line(name, 40)})> " if name else "> "


def toolbar_text(facts: SessionFacts) -> str:
    parts = [f"approvals: {facts.policy_text(time.time())} (shift-tab)"]
    if facts.model or facts.profile:
        parts.append(one_line(facts.model or facts.profile, 40))
    if facts.context is not None:
        parts.append(f"context {facts.context.used / facts.context.limit:.0%}")
    return " · ".join([*parts, "/help"])
