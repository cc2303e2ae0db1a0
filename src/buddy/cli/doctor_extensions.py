"""What `buddy doctor` says about hooks: which apply in this folder, and what is wrong with them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from buddy.approvals.hook_files import HOOK_FILES
from buddy.approvals.trust import Trust
from buddy.cli.doctor_check import Check
from buddy.config.places import Places
from buddy.hooks.definitions import HookFile, read_hooks


def check_extensions(places: Places, folder: Path) -> Iterator[Check]:
    yield from _hooks(places, folder)


def _hooks(places: Places, folder: Path) -> Iterator[Check]:
    user = places.config_dir / "hooks.json"
    found = [read_hooks(str(user), "user", str(user))]
    found += [read_hooks(str(folder / name), "project", name) for name in HOOK_FILES]
    is_trusted = Trust(places.state_dir).is_trusted(str(folder))
    for file in filter(None, found):
        if file.problems:
            hint = "calls that it guards are asked about until it is corrected"
            yield Check("hooks", "warn", "; ".join(file.problems), hint)
        elif file.path in HOOK_FILES and not is_trusted:
            yield Check("hooks", "info", f"{file.path} is ignored until the folder is trusted", f"buddy trust {folder}")
        else:
            yield Check("hooks", "ok", f"{file.path}: {_summary(file)}")


def _summary(file: HookFile) -> str:
    counts = Counter(hook.event for hook in file.hooks)
    shown = ", ".join(f"{event} {count}" for event, count in counts.items()) or "none for Buddy's events"
    return f"{shown}; ignored: {', '.join(file.others)}" if file.others else shown
