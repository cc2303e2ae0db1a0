"""The session options in the command line's flags: where it works, with which model, and its limits."""

import os
from typing import Any

from buddy.cli.options import Options
from buddy.config.paths import config_file, state_path
from buddy.errors import UserError
from buddy.targets.confine.verdict import read_verdict


def target_of(options: Options) -> str:
    """`local`, `container:NAME` or `ssh:HOST`."""
    if options.container is not None:
        return f"container:{options.container}"
    return "local" if options.ssh is None else f"ssh:{options.ssh}"


def workspace_of(options: Options) -> str:
    """The workspace: a local directory, or an absolute path on the target."""
    if target_of(options) != "local":
        if not options.directory.startswith("/"):
            flag = "--container" if options.ssh is None else "--ssh"
            raise UserError(f"{flag} needs -C /absolute/path", hint=f"-C is the workspace on {target_of(options)}")
        return options.directory
    root = os.path.realpath(options.directory)
    if not os.path.isdir(root):  # noqa: PTH112 - pathlib is not loaded before a message is sent
        raise UserError(f"{root} is not a directory", hint="-C DIR names the workspace")
    try:
        root.encode()
    except UnicodeEncodeError:
        raise UserError(f"the name of {root!a} is not UTF-8 text", hint="rename the directory") from None
    return root


def pane_of(options: Options) -> bool | str | None:
    """Whether commands run in a tmux pane, and in which tmux session."""
    return None if options.no_tmux else options.tmux


def apply_configured(options: Options) -> None:
    """For a new session: what `[agent]` in the user's file says about its sandbox and policy, unless a flag does.

    The sandbox is that of this machine; a container, another machine or a shared pane has its own.
    """
    if (options.sandbox is not None and options.approve is not None) or not _may_be_configured(options):
        return
    from buddy.cli.settings import read_config

    agent = read_config(options).agent
    if options.sandbox is None and target_of(options) == "local" and not pane_of(options):
        options.sandbox = agent.sandbox
    if options.approve is None:
        options.approve = agent.approve


def _may_be_configured(options: Options) -> bool:
    """Whether the file mentions such a key: most do not, and reading it properly takes longer than all the rest."""
    try:
        with open(config_file(os.environ, options.config), encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
            return any(("sandbox" in line or "approve" in line) and line.lstrip()[:1] != "#" for line in file)
    except OSError:
        return False


def level_of(options: Options) -> str | None:
    """The sandbox level to request: by default `confined` on this machine, unless the last self-test failed.

    None leaves it to the target. A shared pane cannot be confined, so requesting one means `host`.
    """
    if options.sandbox is not None or target_of(options) != "local":
        return options.sandbox
    if pane_of(options):
        return "host"
    last = read_verdict(state_path(os.environ, options.state_dir))
    return "confined" if last is None or last.method else "host"


def is_default_level(options: Options) -> bool:
    """Whether nobody chose how commands are confined, so that `host` may take the place of `confined`."""
    return options.sandbox is None and target_of(options) == "local"


def policy_of(options: Options, level: str | None) -> str:
    """The approval policy: the given one, or `auto` where commands are confined, else `ask`."""
    policy = options.approve or ("auto" if level == "confined" else "ask")
    if policy not in ("ask", "auto", "all", "none"):
        from buddy.approvals.deadlines import Moment
        from buddy.approvals.policy import parse_policy

        parse_policy(policy, Moment(0))
    return policy


def session_payload(options: Options, mode: str, level: str | None, policy: str) -> dict[str, Any]:
    """The payload of `start_session`, as plain JSON: exec sends it before the protocol's types are loaded."""
    session: dict[str, Any] = {
        "agentRuntime": options.agent_runtime,
        "profile": options.profile,
        "model": options.model,
        "target": target_of(options),
        "tmux": pane_of(options),
        "sandbox": level,
        "plan": options.plan or None,
        "unsafeAgent": options.unsafe_agent or None,
        "checkpoints": False if options.no_checkpoints else None,
        "approvalPolicy": policy,
        "budget": budget_of(options),
    }
    return {
        "mode": mode,
        "provider": options.profile or "default",
        "sandboxProvider": target_of(options),
        "repo": {"rootPath": workspace_of(options)},
        "metadata": {"source": "cli"},
        "options": without_none(session),
    }


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def check_positive(flag: str, value: float | None) -> None:
    if value is not None and value <= 0:
        raise UserError(f"{flag} must be more than 0")


def budget_of(options: Options) -> dict[str, Any]:
    check_positive("--max-turns", options.max_turns)
    check_positive("--max-tokens", options.max_tokens)
    check_positive("--max-cost", options.max_cost)
    limits = {
        "maxTurns": options.max_turns,
        "maxCostUsd": options.max_cost,
        "maxTokens": options.max_tokens,
        "maxSeconds": _seconds(options.max_time),
    }
    return without_none(limits)


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    from buddy.protocol.durations import parse_duration

    seconds = parse_duration(text)
    if seconds is None:
        raise UserError(f"--max-time {text} is not a duration", hint="for example 90s, 10m or 1h")
    return seconds
