"""A command line that confines another with bubblewrap."""

from collections.abc import Iterable, Sequence

from buddy.targets.confine.fence import Plan

PRIVATE = ("/tmp", "/var/tmp", "/run")  # noqa: S108 - replaced by empty ones


def wrap(plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    words += ["--share-net"] if plan.network else []
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for place in PRIVATE:
        words += ["--tmpfs", place]
    words += _hide(place for place in plan.hidden if not _is_below(place, plan.root))
    words += ["--bind", plan.root, plan.root]
    words += _hide(place for place in plan.hidden if _is_below(place, plan.root))
    for place in plan.pins:
        words += ["--bind", place, place]
    for place in plan.readonly:
        if place not in plan.hidden:
            words += ["--ro-bind", place, place]
    return [*words, "--chdir", cwd, "--", *argv]


def _hide(places: Iterable[str]) -> list[str]:
    return [word for place in places for word in ("--tmpfs", place, "--remount-ro", place)]


def _is_below(place: str, root: str) -> bool:
    return place.startswith(f"{root}/")
