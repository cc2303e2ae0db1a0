"""The approval policy that holds in a session, by its log alone."""

from msgspec.structs import replace

from buddy.approvals.deadlines import Deadline, Moment
from buddy.approvals.policy import EffectivePolicy, parse_policy
from buddy.protocol.events import SessionStarted
from buddy.sessions.state import SessionFold


def policy_of(fold: SessionFold, now: Moment, window: Deadline | None = None) -> EffectivePolicy:
    """The policy of the active run: its own, else the session's. `window` ends a grant that this process gave."""
    run, of_session = fold.run, session_policy_of(fold, now, window)
    if run is None or not run.options.approval_policy:
        return of_session
    return replace(parse_policy(run.options.approval_policy, now), before=of_session.at(now))


def session_policy_of(fold: SessionFold, now: Moment, window: Deadline | None = None) -> EffectivePolicy:
    """The policy that was set last, else the initial one, else `ask`, or `none` in headless sessions."""
    initial = _initial_policy(fold.started, now)
    if fold.policy is None:
        return initial
    recorded = None if fold.policy_expires_at is None else Deadline(fold.policy_expires_at)
    before = fold.lasting_policy or initial.lasting
    return EffectivePolicy(fold.policy, recorded and (window or recorded), before)


def _initial_policy(started: SessionStarted | None, now: Moment) -> EffectivePolicy:
    if started and started.options and started.options.approval_policy:
        return parse_policy(started.options.approval_policy, now)
    return EffectivePolicy("none" if started and started.mode == "headless" else "ask")
