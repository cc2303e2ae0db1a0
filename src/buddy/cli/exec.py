"""`buddy exec` and `buddy resume`: one run to its outcome, without a person where there is none.

What always holds: the answer goes to stdout and everything else to stderr; the exit code is the run's; nobody is waited
for who is not there. With a daemon nothing is loaded but what speaks to it: the run has begun before any more could be.
"""

from __future__ import annotations

import argparse
import os
import sys

from buddy.cli.driving import Errand, find_daemon, over_socket
from buddy.cli.following import Following
from buddy.cli.report import Report
from buddy.cli.talk import Talk
from buddy.cli.trusting import note_untrusted
from buddy.cli.wish import pane_of, target_of, workspace_of
from buddy.config.paths import socket_path
from buddy.errors import ProtocolError, UserError
from buddy.protocol.basics import MAX_TEXT, Ulids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from buddy.cli.talk import Fields, Steps

    Begin = Callable[[Talk, Following, Report], Steps[int]]

LISTED = 200
WHOLE_ID = len("sess_") + 26


def execute(options: argparse.Namespace) -> int:
    prompt = read_prompt(options)
    wish = _session_wish(options)
    _check_cost(options)
    note_untrusted(options)

    def steps(talk: Talk, following: Following, report: Report) -> Steps[int]:
        talk.greet()
        session_id = yield from talk.start_session(wish)
        report.session(session_id)
        reply = yield from talk.ask("send_user_message", _message(options, session_id, prompt), session_id)
        following.session_id, following.run_id = session_id, reply["runId"]
        return (yield from following.until_complete())

    return _run(options, steps)


def resume(options: argparse.Namespace) -> int:
    def steps(talk: Talk, following: Following, report: Report) -> Steps[int]:
        talk.greet()
        session_id = yield from _find(talk, options)
        try:
            attached = yield from talk.attach(session_id)
        except ProtocolError as error:
            raise (_unknown(session_id) if error.code == "SESSION_NOT_FOUND" else error) from error
        shown = yield from talk.ask("get_snapshot", {}, session_id)
        following.session_id, following.run_id = session_id, shown.get("activeRunId")
        following.replayed = attached["replay"]["toSeq"]
        report.session(session_id)
        return (yield from following.until_complete())

    return _run(options, steps)


def read_prompt(options: argparse.Namespace) -> str:
    """The prompt from the command line, or from stdin where that was asked for or nothing else is there."""
    prompt: str | None = options.prompt if options.prompt is not None else getattr(options, "task", None)
    if prompt == "-" or (prompt is None and not sys.stdin.isatty()):
        prompt = _read_stdin().decode(errors="replace")
    if prompt is None or not prompt.strip():
        raise UserError("there is no prompt", hint='buddy exec "what to do", or pipe it in: … | buddy exec -')
    return prompt


def _read_stdin() -> bytes:
    """All of it, piece by piece: between two pieces an interrupt is heard, and too much is noticed early."""
    content = bytearray()
    while chunk := os.read(sys.stdin.fileno(), 65536):
        content += chunk
        if len(content) > MAX_TEXT:
            raise UserError(
                f"the prompt is longer than {MAX_TEXT // 1024} KiB", hint="put it into a file and name that instead"
            )
    return bytes(content)


def _run(options: argparse.Namespace, begin: Begin) -> int:
    """With the daemon where one runs; in this process where none does, or a configuration was named for this call."""
    talk = Talk("cli" if _asks(options) else "headless")
    report = Report(json=options.json, stream_json=options.stream_json)
    following = Following(talk, report, has_person=_asks(options))

    def errand() -> Errand:
        return Errand(talk, following, begin(talk, following, report))

    path = socket_path(os.environ, options.state_dir, options.socket)
    connection = None if options.config else find_daemon(path)
    if connection is not None:
        return over_socket(path, connection, errand())
    from buddy.cli.inprocess import run_here

    return run_here(options, errand)


def _find(talk: Talk, options: argparse.Namespace) -> Steps[str]:
    """The id that `--last`, `last`, an id or the beginning of one means."""
    wanted: str | None = options.session_id
    if options.last or wanted == "last":
        root = os.path.realpath(options.directory)
        found = yield from talk.ask("list_sessions", {"limit": 1, "rootPath": root})
        if not found["sessions"]:
            raise UserError(f"no session in {root}", hint="buddy session list --all shows those of other directories")
        return found["sessions"][0]["sessionId"]
    if not wanted:
        raise UserError("which session?", hint="buddy resume ID, or buddy resume --last; buddy session list shows them")
    if len(wanted) >= WHOLE_ID:
        return wanted
    known = yield from talk.ask("list_sessions", {"limit": LISTED})
    start = "sess_" + wanted.removeprefix("sess_").upper()
    ids = [session["sessionId"] for session in known["sessions"] if session["sessionId"].startswith(start)]
    if len(ids) > 1 and start != "sess_":
        raise UserError(f"{len(ids)} sessions begin with {wanted}", hint="give more of the id")
    if len(ids) != 1 or start == "sess_":
        raise _unknown(wanted)
    return ids[0]


def _unknown(wanted: str) -> UserError:
    return UserError(f"no session {wanted[:80]}", hint="buddy session list --all shows those there are")


def _session_wish(options: argparse.Namespace) -> Fields:
    for name in ("max_turns", "max_tokens", "max_rounds", "max_cost"):
        if (value := getattr(options, name)) is not None and value <= 0:
            raise UserError(f"--{name.replace('_', '-')} must be more than 0")
    budget = {
        "maxTurns": options.max_turns,
        "maxCostUsd": options.max_cost,
        "maxTokens": options.max_tokens,
        "maxSeconds": _seconds(options.max_time),
    }
    wishes: Fields = {
        "agentRuntime": options.agent_runtime,
        "profile": options.profile,
        "model": options.model,
        "target": target_of(options),
        "tmux": pane_of(options),
        "sandbox": options.sandbox,
        "plan": options.plan or None,
        "approvalPolicy": _policy(options),
        "budget": _given(budget),
    }
    return {
        "mode": "headless",
        "provider": options.profile or "default",
        "sandboxProvider": target_of(options),
        "repo": {"rootPath": workspace_of(options)},
        "metadata": {"source": "cli"},
        "options": _given(wishes),
    }


def _message(options: argparse.Namespace, session_id: str, prompt: str) -> Fields:
    checks = [{"id": f"accept-{number}", "check": check} for number, check in enumerate(options.accept, 1)]
    message = {
        "sessionId": session_id,
        "clientMessageId": Ulids()("msg"),
        "text": prompt,
        "acceptanceCriteria": checks or None,
        "acceptance": {"maxRounds": options.max_rounds} if options.max_rounds else None,
    }
    return _given(message)


def _given(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if value is not None}


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    from buddy.protocol.durations import parse_duration

    seconds = parse_duration(text)
    if seconds is None:
        raise UserError(f"--max-time {text} is not a duration", hint="such as 90s, 10m or 1h")
    return seconds


def _policy(options: argparse.Namespace) -> str:
    """Asking needs somebody who can answer; without a terminal it is no."""
    policy: str = options.approve or "ask"
    if policy not in ("ask", "all", "none"):
        from buddy.approvals.policy import parse_policy

        parse_policy(policy, 0)
    return "none" if policy == "ask" and not _asks(options) else policy


def _asks(options: argparse.Namespace) -> bool:
    wants = getattr(options, "approve", None) in (None, "ask")
    return wants and sys.stdin.isatty() and sys.stderr.isatty()


def _check_cost(options: argparse.Namespace) -> None:
    if options.max_cost is None or options.agent_runtime not in (None, "native"):
        return  # whether another agent tells what it costs, the session knows
    from buddy.cli.embedded import places_of, read_config
    from buddy.cli.model import find_prices
    from buddy.config.resolve import resolve_profile

    found = resolve_profile(read_config(options), os.environ, options.profile, options.model)
    if find_prices(found, places_of(options).config_dir / "auth.json") is None:
        raise UserError(
            f"--max-cost cannot hold: the price of {found.model or found.profile} is not known",
            hint=f"set input_price and output_price in [models.{found.profile}], or use --max-tokens",
        )
