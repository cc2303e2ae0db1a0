"""Sets the fence of a session on its target, where that is on another machine."""

from buddy.capabilities import has
from buddy.targets.contract import FencedTarget, Target, without_terminal


def set_fence(target: Target, fence: str) -> None:
    """Also on the target behind a pane; on this machine, a session has one process at a time."""
    behind = without_terminal(target)
    if has(behind, FencedTarget):
        behind.fence = fence
        if has(target, FencedTarget):
            target.fence = fence
