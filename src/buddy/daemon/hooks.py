"""The hooks of the sessions of a daemon; where nothing is defined, nothing is loaded."""

from collections.abc import Callable
from pathlib import Path

from buddy.approvals.hook_files import has_hooks
from buddy.approvals.trust import Trust
from buddy.backends.hooks import NO_HOOKS, Hooks
from buddy.tools.contract import Place


def make_hooks(user_file: Path, trust: Trust) -> Callable[[str, Place], Hooks]:
    def hooks_of(session_id: str, place: Place) -> Hooks:
        root = place.root if place.target.name == "local" else None
        if not has_hooks(user_file, root):
            return NO_HOOKS
        from buddy.hooks.session_hooks import SessionHooks

        return SessionHooks(session_id, root, user_file, trust)

    return hooks_of
