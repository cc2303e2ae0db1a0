"""What `buddy doctor` says about hooks, skills and commands: which apply in this folder, and what is wrong."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from buddy.approvals.hook_files import HOOK_FILES
from buddy.approvals.trust import Trust
from buddy.cli.doctor_check import Check
from buddy.config.places import Places
from buddy.hooks.definitions import HookFile, read_hooks
from buddy.tools.skills.discovery import PROJECT_COMMANDS, PROJECT_SKILLS
from buddy.tools.skills.library import FolderTrust, Library

MAX_NAMES = 20


def check_extensions(places: Places, folder: Path) -> Iterator[Check]:
    yield from _hooks(places, folder)
    yield from _texts(places, folder)


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


def _texts(places: Places, folder: Path) -> Iterator[Check]:
    trust = Trust(places.state_dir)
    is_trusted = trust.is_trusted(str(folder))
    for kind, names in (("skills", PROJECT_SKILLS), ("commands", PROJECT_COMMANDS)):
        present = [name for name in names if (folder / name).is_dir()]
        if present and not is_trusted:
            text = f"{', '.join(present)} is ignored until the folder is trusted"
            yield Check(kind, "info", text, f"buddy trust {folder}")
    library = Library(places.config_dir, FolderTrust(lambda _root: is_trusted, trust.stamp))
    skills, commands = library.skills(str(folder)), library.commands(str(folder))
    yield from _listed("skills", [skill.name for skill in skills.skills], skills.problems)
    yield from _listed("commands", [f"/{command.name}" for command in commands.commands], commands.problems)


def _listed(kind: str, names: list[str], problems: tuple[str, ...]) -> Iterator[Check]:
    if names:
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        yield Check(kind, "ok", f"{', '.join(names[:MAX_NAMES])}{more}")
    for problem in problems[:MAX_NAMES]:
        yield Check(kind, "warn", problem)


def _summary(file: HookFile) -> str:
    counts = Counter(hook.event for hook in file.hooks)
    shown = ", ".join(f"{event} {count}" for event, count in counts.items()) or "none for Buddy's events"
    return f"{shown}; ignored: {', '.join(file.others)}" if file.others else shown
