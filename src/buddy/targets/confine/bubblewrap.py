"""A command line that confines another with bubblewrap."""

import os
import sys
from collections.abc import Iterable, Sequence

from buddy.targets.confine.fence import Plan

PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - replaced by empty ones


def wrap(plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    words += ["--share-net"] if plan.network else []
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for place in PRIVATE:
        words += ["--tmpfs", place]
    for place in own_python():
        words += ["--ro-bind", place, place]
    words += _hide(place for place in plan.hidden if not _is_below(place, plan.root))
    words += ["--bind", plan.root, plan.root]
    words += _hide(place for place in plan.hidden if _is_below(place, plan.root))
    for place in plan.pins:
        words += ["--bind", place, place]
    for place in plan.readonly:
        if place not in plan.hidden:
            words += ["--ro-bind", place, place]
    return [*words, "--chdir", cwd, "--", *argv]


def own_python() -> list[str]:
    """Where this interpreter is installed, if that is in a place that is replaced: the self-test runs in there."""
    homes = dict.fromkeys(os.path.realpath(home) for home in (sys.base_prefix, sys.prefix))
    return [home for home in homes if any(_is_below(home, place) for place in PRIVATE)]


def _hide(places: Iterable[str]) -> list[str]:
    return [word for place in places for word in ("--tmpfs", place, "--remount-ro", place)]


def _is_below(place: str, root: str) -> bool:
    return place.startswith(f"{root}/")
