"""A command line that confines another with bubblewrap."""

from collections.abc import Iterable, Sequence

from buddy.targets.confine.policy import Plan, is_below


def wrap(plan: Plan, argv: Sequence[str], cwd: str) -> list[str]:
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    words += ["--share-net"] if plan.network else []
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    # Contains kernel settings, which would otherwise stay writable for root.
    words += ["--remount-ro", "/proc"]
    for place in (*plan.private, "/dev/shm"):  # noqa: S108 - a mount of its own
        words += ["--size", str(plan.files_bytes), "--tmpfs", place]
    for place in plan.visible:
        words += ["--ro-bind", place, place]
    words += _hide(place for place in plan.hidden if not is_below(place, plan.root))
    words += ["--ro-bind" if plan.is_reading else "--bind", plan.root, plan.root]
    words += _hide(place for place in plan.hidden if is_below(place, plan.root))
    for place in plan.pins:
        words += ["--bind", place, place]
    for place in plan.readonly:
        words += ["--ro-bind", place, place]
    words += [] if plan.filter is None else ["--seccomp", str(plan.filter)]
    return [*words, "--chdir", cwd, "--", *argv]


def _hide(places: Iterable[str]) -> list[str]:
    return [word for place in places for word in ("--tmpfs", place, "--remount-ro", place)]
