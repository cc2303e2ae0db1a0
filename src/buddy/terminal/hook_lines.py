"""What a hook did, in one line; what a decision or an outcome says anyway is not repeated."""

from buddy.terminal.escape import one_line

LINE = 300


def hook_line(event: str, hook: str, verdict: str, reason: str | None, message: str | None) -> str | None:
    """None for a hook that changed nothing."""
    said = f": {one_line(reason, LINE)}" if reason else ""
    name = f"{event} hook {one_line(hook, 80)}"
    if verdict == "failed":
        return f"{name} failed{said}"
    if verdict == "changed":
        return f"{name} changed the input{said}"
    if verdict == "deny" and event in ("PostToolUse", "PreCompact"):
        return f"{name}{said}"
    return f"{name}: {one_line(message, LINE)}" if message else None
