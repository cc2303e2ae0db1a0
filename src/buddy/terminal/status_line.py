"""The texts around the input: the prompt before it and the toolbar below it."""

import time

from buddy.git import current_branch
from buddy.terminal.current_session import SessionFacts
from buddy.terminal.escape import one_line
from buddy.terminal.style import Style
from buddy.terminal.wrap import cut

BRANCH_SECONDS = 2.0


class Branch:
    """The git branch of a folder, read again only after a while: the toolbar is drawn with every key."""

    def __init__(self) -> None:
        self._root = ""
        self._name = ""
        self._read_at = float("-inf")

    def name(self, facts: SessionFacts) -> str:
        if facts.target != "local":
            return ""  # the folder is on another machine
        now = time.monotonic()
        if facts.root != self._root or now - self._read_at > BRANCH_SECONDS:
            self._root, self._name, self._read_at = facts.root, current_branch(facts.root), now
        return self._name


def prompt_text(target: str) -> str:
    """`> ` here, `(ssh user@host)> ` or `(container name)> ` elsewhere."""
    kind, _, name = target.partition(":")
    return f"({one_line(kind, 20)} {one_line(name, 40)})> " if name else "> "


def toolbar_text(facts: SessionFacts, style: Style, columns: int, notice: str = "", branch: str = "") -> str:
    """One line; a policy that asks nothing, and plan mode, stand out."""
    now = time.time()
    policy = f"approvals: {facts.policy_text(now)} (shift-tab)"
    parts = [policy]
    if facts.model or facts.profile:
        parts.append(one_line(facts.model or facts.profile, 40))
    if branch:
        parts.append(one_line(branch, 40))
    if facts.context is not None:
        parts.append(f"context {facts.context.used / facts.context.limit:.0%}")
    text = cut(" · ".join([*filter(None, [notice]), *parts, "/help"]), columns)
    colour = style.red if facts.is_lenient(now) else style.cyan if facts.plan else style.dim
    before, found, after = text.partition(policy)
    return f"{style.dim(before)}{colour(found)}{style.dim(after)}" if found else colour(text)
