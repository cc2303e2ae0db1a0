"""`buddy exec` and `buddy resume`: one run to its outcome, with or without a person, in a new session or an old one.

Invariants: the answer goes to stdout and everything else to stderr; the exit code is the run's; nobody is waited for
who is not there; the first interrupt cancels the run, the second ends the wait. With a daemon, everything is plain
JSON, so the protocol's types are not loaded.
"""

import os
import select
import signal
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from buddy.cli.connect import blocking_client
from buddy.cli.endpoint import endpoint_for_attach, endpoint_for_start
from buddy.cli.folder_trust import note_untrusted
from buddy.cli.options import Options
from buddy.cli.session_options import (
    apply_configured,
    check_positive,
    is_default_level,
    level_of,
    policy_of,
    session_payload,
    without_none,
)
from buddy.client.steps import find_session, unknown_session
from buddy.errors import ProtocolError, UserError
from buddy.protocol.basics import MAX_TEXT, Ulids
from buddy.terminal.escape import escape

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import FrameType

    from buddy.cli.live_report import LiveReport
    from buddy.cli.run_follower import Unattended
    from buddy.client.blocking import BlockingClient
    from buddy.client.images import ImageFile

STOPS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hangup"}


def execute(options: Options) -> int:
    prompt = read_prompt(options)
    if options.last or options.session:
        return _continue(options, prompt)
    apply_configured(options)
    level = level_of(options)
    session = _session(options, level)
    check_positive("--max-rounds", options.max_rounds)
    _check_cost(options)
    images = _images(options)
    note_untrusted(options)
    with _client(options, needs_own_config=True) as (client, live):
        session["options"]["endpoint"] = endpoint_for_start(client.hello().get("keyVariables"))
        try:
            session_id, why = client.start_session(session), ""
        except ProtocolError as error:
            if error.code != "SANDBOX_UNAVAILABLE" or not (is_default_level(options) and level == "confined"):
                raise
            # Nobody asked for `confined`: `host` has the stricter policy, and what is chosen is printed.
            level, why, endpoint = "host", error.message, session["options"]["endpoint"]
            session = _session(options, level)
            session["options"]["endpoint"] = endpoint
            session_id = client.start_session(session)
        started = _send_first(options, client, session_id, prompt, images)
        _print_session(session_id, live)
        if is_default_level(options):
            _print_level(level, why)
        return _follow(options, client, live, session_id, started["runId"])


def _send_first(
    options: Options, client: "BlockingClient", session_id: str, prompt: str, images: "list[ImageFile]"
) -> dict[str, Any]:
    """Send the message that the session was started for; if it is refused, no empty session is left."""
    try:
        message = {**_message(options, session_id, prompt), **_attach(client, session_id, images)}
        return client.ask("send_user_message", message, session_id)
    except ProtocolError:
        with suppress(ProtocolError):  # the refusal is what the person needs to know
            said = {"after": 0, "limit": 1, "types": ["user_message"]}
            if not client.ask("read_events", said, session_id)["events"]:
                client.ask("delete_session", {}, session_id)
        raise


def resume(options: Options) -> int:
    """Send the prompt, if there is one; otherwise follow the active run, or print the last answer again."""
    if options.prompt is not None or options.image:
        return _continue(options, read_prompt(options))
    from buddy.cli.continuing import check_no_run_flags, is_active

    with _client(options) as (client, live):
        session_id = client.perform(find_session(*_session_to_resume(options)))
        piped = _piped_prompt(wait=not client.perform(is_active(session_id)))
        if piped is not None:
            return _send(options, client, live, session_id, piped)
        check_no_run_flags(options, 'buddy resume ID "what to do next"')
        try:
            attached = client.attach(session_id)
        except ProtocolError as error:
            raise (unknown_session(session_id) if error.code == "SESSION_NOT_FOUND" else error) from error
        snapshot = client.ask("get_snapshot", {}, session_id)
        _print_session(session_id, live)
        unattended = "watch" if client.is_shared else "continue"
        run_id, replayed = snapshot.get("activeRunId"), attached["replay"]["toSeq"]
        return _follow(options, client, live, session_id, run_id, replayed, unattended=unattended)


def _continue(options: Options, prompt: str) -> int:
    note_untrusted(options)
    with _client(options) as (client, live):
        session_id = client.perform(find_session(*_session_to_resume(options)))
        return _send(options, client, live, session_id, prompt)


def _send(options: Options, client: "BlockingClient", live: "LiveReport | None", session_id: str, prompt: str) -> int:
    """Send a message to a session that exists, and follow its run."""
    from buddy.cli.continuing import busy, check_fixed, is_active, run_options

    check_fixed(options)
    images = _images(options)
    per_run = run_options(options, _policy(options, None) if options.approve else None)
    if client.perform(is_active(session_id)):
        raise busy(session_id)
    client.attach(session_id, client.ask("read_events", {"after": 0, "limit": 1}, session_id)["lastSeq"])
    if options.profile or options.model:
        client.ask("switch_model", without_none({"profile": options.profile, "model": options.model}), session_id)
    policy = client.ask("get_snapshot", {}, session_id).get("approvalPolicy") or ""
    _print_session(session_id, live)
    attached = _attach(client, session_id, images)
    message = without_none({**_message(options, session_id, prompt), "options": per_run, **attached})
    started = client.ask("send_user_message", message, session_id)
    return _follow(options, client, live, session_id, started["runId"], policy=policy)


def read_prompt(options: Options) -> str:
    """The prompt from the command line, or from stdin where that was asked for or stdin is not a terminal."""
    prompt = options.prompt if options.prompt is not None else options.task
    if prompt == "-" or (prompt is None and not sys.stdin.isatty()):
        prompt = _read_stdin().decode(errors="replace")
    if options.image and not (prompt or "").strip():
        return ""
    if prompt is None or not prompt.strip():
        raise UserError("no prompt given", hint='buddy exec "what to do", or pipe it in: … | buddy exec -')
    return prompt


def _piped_prompt(*, wait: bool) -> str | None:
    """A prompt on stdin. Without `wait`, only one that is already there: a pipe may stay open and empty."""
    if sys.stdin.isatty() or not (wait or select.select([sys.stdin.fileno()], [], [], 0)[0]):
        return None
    text = _read_stdin().decode(errors="replace")
    return text if text.strip() else None


def _read_stdin() -> bytes:
    """All of it, piece by piece: an interrupt is noticed between two pieces, and too much early."""
    content = bytearray()
    while chunk := os.read(sys.stdin.fileno(), 65536):
        content += chunk
        if len(content) > MAX_TEXT:
            raise UserError(
                f"the prompt is longer than {MAX_TEXT // 1024} KiB", hint="put it into a file and name the file instead"
            )
    return bytes(content)


@contextmanager
def _client(
    options: Options, *, needs_own_config: bool = False
) -> "Generator[tuple[BlockingClient, LiveReport | None], None, None]":
    """A client; on a terminal with a report that shows while it waits that it is alive."""
    with blocking_client(options, _client_name(options), needs_own_config=needs_own_config) as client:
        client.offer(endpoint_for_attach(client.hello().get("keyVariables")))
        if options.stream_json or not sys.stderr.isatty():
            yield client, None
            return
        from buddy.cli.live_report import LiveReport

        live = LiveReport(options)
        client.on_idle = live.draw
        try:
            yield client, live
        finally:
            live.pause()


def _follow(
    options: Options,
    client: "BlockingClient",
    live: "LiveReport | None",
    session_id: str,
    run_id: str | None,
    replayed: int = 0,
    *,
    policy: str = "",
    unattended: "Unattended | None" = None,
) -> int:
    """Show what happens until the run is complete; return its exit code."""
    with _Interrupts(client, session_id, run_id):
        from buddy.cli.report import Report
        from buddy.cli.run_follower import RunFollower

        report = live or Report(json=options.json, stream_json=options.stream_json)
        unattended = unattended or ("park" if _parks(options) else "deny")
        has_person = _has_person(options)
        follower = RunFollower(
            client, report, session_id, run_id, has_person=has_person, policy=policy, unattended=unattended
        )
        return follower.follow(replayed)


class _Interrupts:
    """The first signal cancels the run, the second raises KeyboardInterrupt; one that was ignored stays ignored."""

    def __init__(self, client: "BlockingClient", session_id: str, run_id: str | None) -> None:
        self._client = client
        self._session_id = session_id
        self._run_id = run_id
        self._numbers = [number for number in STOPS if signal.getsignal(number) != signal.SIG_IGN] if run_id else []
        self._count = 0

    def __enter__(self) -> None:
        # The numbers of signals are written to a pipe, which is waited for together with the connection. The pipe comes
        # first: a signal between the two would be counted, and cancel nothing.
        self._pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._client.watched[self._pipe[0]] = self._cancel
        self._wakeup = signal.set_wakeup_fd(self._pipe[1]) if self._numbers else -1
        self._previous = {number: signal.signal(number, self._on_signal) for number in self._numbers}

    def __exit__(self, *_: object) -> None:
        del self._client.watched[self._pipe[0]]
        if self._numbers:
            signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        for end in self._pipe:
            os.close(end)

    def _on_signal(self, _number: int, _frame: "FrameType | None") -> None:
        self._count += 1
        if self._count > 1:
            raise KeyboardInterrupt

    def _cancel(self) -> None:
        for number in os.read(self._pipe[0], 4096):
            reason = STOPS.get(signal.Signals(number))
            if reason is not None:
                cancel = {"sessionId": self._session_id, "runId": self._run_id, "reason": reason}
                self._client.tell("cancel_run", cancel, self._session_id, on_cancel_refused)


def on_cancel_refused(refusal: ProtocolError) -> None:
    """A refused cancel means that the run is over, unless the disk is full: that is not waited for."""
    if refusal.retryable:
        raise refusal


def _print_session(session_id: str, live: "LiveReport | None") -> None:
    if live is not None:
        live.pause()
    print(f"session {escape(session_id)}", file=sys.stderr)


def _print_level(level: str | None, why: str) -> None:
    if level == "confined":
        print(
            "commands are confined: no network, writes only in this folder (--sandbox host turns it off)",
            file=sys.stderr,
        )
    else:
        reason = f" (confined is unavailable: {escape(why)})" if why else ""
        print(f"commands run as your user{reason}", file=sys.stderr)


def _session_to_resume(options: Options) -> tuple[str, str]:
    wanted = "last" if options.last else options.session or options.session_id
    if not wanted:
        raise UserError("no session given", hint="buddy resume ID, or buddy resume --last; see 'buddy session list'")
    return wanted, options.directory


def _message(options: Options, session_id: str, prompt: str) -> dict[str, Any]:
    checks = [{"id": f"accept-{number}", "check": check} for number, check in enumerate(options.accept, 1)]
    message = {
        "sessionId": session_id,
        "clientMessageId": Ulids()("msg"),
        "text": prompt,
        "acceptanceCriteria": checks or None,
        "options": {"asIs": True} if options.as_is else None,
        "acceptance": {"maxRounds": options.max_rounds} if options.max_rounds else None,
    }
    return without_none(message)


def _images(options: Options) -> "list[ImageFile]":
    """The images of the message, read before anything is started."""
    if not options.image:
        return []
    from buddy.client.images import read_images

    return read_images(options.image)


def _attach(client: "BlockingClient", session_id: str, images: "list[ImageFile]") -> dict[str, Any]:
    if not images:
        return {}
    from buddy.client.images import upload_images

    return {"attachments": client.perform(upload_images(session_id, images))}


def _session(options: Options, level: str | None) -> dict[str, Any]:
    policy = _policy(options, level)
    session = session_payload(options, "headless", level, policy)
    if policy == "auto" and _has_person(options):
        session["options"]["attended"] = True
    return session


def _policy(options: Options, level: str | None) -> str:
    """Asking needs somebody who can answer: without a terminal the answer is no, unless questions may wait."""
    policy = policy_of(options, level)
    is_in_vain = policy == "ask" and not _has_person(options) and not _parks(options)
    return "none" if is_in_vain else policy


def _parks(options: Options) -> bool:
    """Whether questions wait without a deadline and without this process: only if `ask` was asked for, too."""
    if options.approve != "ask" or _has_person(options):
        return False
    from buddy.cli.settings import read_config

    return read_config(options).agent.parks


def _has_person(options: Options) -> bool:
    return options.approve in (None, "ask", "auto") and sys.stdin.isatty() and sys.stderr.isatty()


def _client_name(options: Options) -> str:
    return "cli" if _has_person(options) else "headless"


def _check_cost(options: Options) -> None:
    if options.max_cost is None or options.agent_runtime not in (None, "native"):
        return  # whether another agent reports its cost, only its session knows
    from buddy.cli.model import find_prices
    from buddy.cli.settings import places_of, read_config
    from buddy.config.resolve import resolve_profile

    found = resolve_profile(read_config(options), os.environ, options.profile, options.model)
    if find_prices(found, places_of(options).config_dir / "auth.json") is None:
        raise UserError(
            f"--max-cost can't be enforced: no known price for {found.model or found.profile}",
            hint=f"set input_price and output_price in [models.{found.profile}], or use --max-tokens",
        )
