"""What the flags of a command line say of the place a session works in."""

import argparse
import os

from buddy.errors import UserError


def target_of(options: argparse.Namespace) -> str:
    """`local`, `container:NAME` or `ssh:HOST`."""
    for kind in ("container", "ssh"):
        if (name := getattr(options, kind, None)) is not None:
            return f"{kind}:{name}"
    return "local"


def workspace_of(options: argparse.Namespace) -> str:
    """The workspace: a directory here, or an absolute path on the other machine."""
    if target_of(options) != "local":
        if not options.directory.startswith("/"):
            raise UserError(f"which directory on {target_of(options)}?", hint="-C /absolute/path names it")
        return str(options.directory)
    root = os.path.realpath(options.directory)
    if not os.path.isdir(root):  # noqa: PTH112 - a path object is loaded for nothing
        raise UserError(f"{root} is not a directory", hint="-C DIR names the workspace")
    try:
        root.encode()
    except UnicodeEncodeError:
        raise UserError(f"the name of {root!a} is not UTF-8 text", hint="give the directory another name") from None
    return root


def pane_of(options: argparse.Namespace) -> bool | str | None:
    """Whether commands run in a pane, and in which session."""
    return None if getattr(options, "no_tmux", False) else getattr(options, "tmux", None)
