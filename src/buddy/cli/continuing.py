"""Which flags can go with a message to a session that exists, and whether the session can take one."""

from typing import Any

from buddy.cli.options import Options
from buddy.cli.session_options import budget_of, check_positive, without_none
from buddy.client.steps import Steps, all_sessions
from buddy.errors import UserError

ACTIVE = ("running", "awaiting_approval")


def check_fixed(options: Options) -> None:
    """Refuse what was decided when the session was started."""
    fixed = {
        "--agent-runtime": options.agent_runtime,
        "--unsafe-agent": options.unsafe_agent,
        "--container": options.container,
        "--ssh": options.ssh,
        "--tmux": options.tmux,
        "--no-tmux": options.no_tmux,
        "--sandbox": options.sandbox,
        "--plan": options.plan,
        "--no-checkpoints": options.no_checkpoints,
        "--worktree": options.worktree,
    }
    for flag, value in fixed.items():
        if value:
            raise UserError(
                f"{flag} can't be changed in an existing session", hint='leave it out, or start one: buddy exec "…"'
            )


def check_no_run_flags(options: Options, hint: str) -> None:
    """Refuse what only a new message could use."""
    given: dict[str, Any] = {
        "--approve": options.approve,
        "--accept": options.accept,
        "--as-is": options.as_is or None,
        "--max-rounds": options.max_rounds,
        "--max-turns": options.max_turns,
        "--max-cost": options.max_cost,
        "--max-time": options.max_time,
        "--max-tokens": options.max_tokens,
        "--profile": options.profile,
        "--model": options.model,
    }
    for flag, value in given.items():
        if value not in (None, []):
            raise UserError(f"{flag} only goes with a prompt to be run to its outcome", hint=hint)


def run_options(options: Options, policy: str | None) -> dict[str, Any] | None:
    """The options of one run; without a policy, the session's holds."""
    check_positive("--max-rounds", options.max_rounds)
    wanted = {"approvalPolicy": policy, "budget": budget_of(options) or None, "asIs": options.as_is or None}
    return without_none(wanted) or None


def is_active(session_id: str) -> Steps[bool]:
    """Whether the session has a run, in any process, or one that was interrupted. Nothing is opened or recovered."""
    states = {session["sessionId"]: session["state"] for session in (yield from all_sessions())}
    return states.get(session_id) in ACTIVE


def busy(session_id: str) -> UserError:
    return UserError(
        f"{session_id} is busy: it has an active run",
        hint=f"buddy resume {session_id} follows the run to its end; try again after it",
        exit_code=75,
    )
