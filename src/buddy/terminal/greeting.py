"""The first lines of an interactive terminal, and the last ones."""

from collections.abc import Iterator

from buddy.terminal.current_session import CurrentSession, SessionFacts
from buddy.terminal.escape import escape
from buddy.terminal.phrases import PLAN_MODE, short_path
from buddy.terminal.style import Style
from buddy.terminal.wrap import wrap_words

_POLICIES = {"ask": "; Buddy asks first", "auto": "; Buddy asks for anything more", "none": "; all are denied"}


def greeting(
    session: CurrentSession, version: str, style: Style, columns: int, *, is_new: bool = True
) -> Iterator[str]:
    """What runs, where, as whom, and whether Buddy asks; a session that is not new has settings of its own."""
    facts, runtime = session.initial, session.client.runtime
    parts = (version, facts.profile, facts.model) if is_new else (version,)
    yield style.green(style.bold("buddy")) + style.dim(f" {escape(' · '.join(dict.fromkeys(filter(None, parts))))}")
    asks = f" · {PLAN_MODE}" if facts.plan else _POLICIES.get(facts.policy, ", without asking")
    place = f"{escape(short_path(facts.root))} · commands {_runs(facts)}{asks}"
    for line in wrap_words(f"{place if is_new else 'resumed session · /status shows its settings'} · /help", columns):
        yield style.dim(line)
    if runtime is not None and runtime.runtime_version != version:
        yield style.yellow(
            f"! The daemon is version {escape(runtime.runtime_version)}, this is {version}. "
            "Restart it: buddy daemon restart"
        )


def farewell(session: CurrentSession, style: Style) -> Iterator[str]:
    """How to come back."""
    asked = next(iter(session.view.approvals), None)
    if session.active is not None and asked is not None:
        yield style.yellow("The run waits for your approval.")
        yield style.dim(f"Answer it with: buddy approvals approve {asked} (or deny, or show)")
    elif session.active is not None:
        yield style.yellow("The run continues in the background.")
    if session.session_id:
        yield style.dim(f"Resume with: buddy resume {session.session_id}")


def _runs(facts: SessionFacts) -> str:
    if facts.sandbox == "confined":
        return "run confined"
    return "run as your user" if facts.target == "local" else f"run on {escape(facts.target)}"
