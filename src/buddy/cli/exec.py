"""`buddy exec` and `buddy resume`: one run to its outcome, without a person where there is none.

What always holds: the answer goes to stdout and everything else to stderr; the exit code is the run's; nobody is waited
for who is not there.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine

from buddy.cli.asking import Asking
from buddy.cli.embedded import connected, places_of, read_config
from buddy.cli.reading import find_session, last_session, whole
from buddy.cli.report import Report
from buddy.cli.trusting import note_untrusted
from buddy.cli.wish import pane_of, target_of, workspace_of
from buddy.client.client import Client
from buddy.client.view import View
from buddy.errors import ProtocolError, UserError
from buddy.protocol.envelopes import Event
from buddy.protocol.events import AssistantMessage
from buddy.protocol.ids import Ulids
from buddy.protocol.requests import (
    GetSnapshot,
    GetSnapshotReply,
    SendUserMessage,
    StartSession,
)
from buddy.protocol.shapes import AcceptanceOptions, BudgetLimits, Criterion, Repo, SessionOptions
from buddy.sessions.messages import MAX_TEXT
from buddy.sessions.policy import parse_duration, parse_policy

INTERRUPTED = 130
STOPS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", signal.SIGHUP: "hangup"}


def execute(options: argparse.Namespace) -> int:
    prompt = read_prompt(options)
    wish = _session_wish(options)
    _check_cost(options)
    note_untrusted(options)

    async def work() -> int:
        async with connected(options, "cli" if _asks(options) else "headless") as client:
            started = await client.start_session(wish)
            message = SendUserMessage(
                started.session_id,
                Ulids()("msg"),
                prompt,
                _criteria(options),
                acceptance=AcceptanceOptions(options.max_rounds) if options.max_rounds else None,
            )
            run_id = await client.send(message)
            return await _Following(client, options, started.session_id, run_id).until_complete()

    return _run(work())


def resume(options: argparse.Namespace) -> int:
    async def work() -> int:
        async with connected(options, "cli" if _asks(options) else "headless") as client:
            session_id = await _session_of(client, options)
            attached = await client.attach(session_id)
            shown = await client.request(GetSnapshot(), GetSnapshotReply, session_id)
            following = _Following(client, options, session_id, shown.active_run_id, attached.replay.to_seq)
            return await following.until_complete()

    return _run(work())


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


class _Following:
    """Shows what happens until the run is complete; without an active run, until the log is told."""

    def __init__(
        self, client: Client, options: argparse.Namespace, session_id: str, run_id: str | None, replayed: int = 0
    ) -> None:
        self._client = client
        self._asking = Asking(client, session_id, person=_asks(options))
        self._session_id = session_id
        self._run_id = run_id
        self._replayed = replayed
        self._view = View()
        self._report = Report(json=options.json, stream_json=options.stream_json)

    async def until_complete(self) -> int:
        self._report.session(self._session_id)
        async with _Stopping(self._client, self._session_id, self._run_id):
            try:
                await self._follow()
            finally:
                await self._asking.close()
        run = self._view.runs.get(self._run_id or "") or next(reversed(self._view.runs.values()), None)
        if run is None:
            raise UserError(f"{self._session_id} has no run to go on with", hint='start one: buddy exec "…"')
        return self._report.finish(self._session_id, run)

    async def _follow(self) -> None:
        async for event in self._client.events():
            self._view.apply(event)
            self._report.event(event)
            if event.type == "assistant_message" and event.run_id:
                await self._complete_text(event, event.run_id)
            if self._is_over(event):
                return
            if event.seq >= self._replayed:
                self._asking.follow(self._view)

    async def _complete_text(self, event: Event, run_id: str) -> None:
        """A long answer is in the event with its beginning alone."""
        body = await whole(self._client, event)
        if isinstance(body, AssistantMessage):
            self._view.runs[run_id].finished_text = body.text

    def _is_over(self, event: Event) -> bool:
        if self._run_id is None:
            # A recovered run may be over before it could be asked for: its events say so.
            return event.seq >= self._replayed and self._view.active is None
        return event.type == "run_complete" and event.run_id == self._run_id


class _Stopping:
    """The first interrupt cancels the run, the second ends the waiting."""

    def __init__(self, client: Client, session_id: str, run_id: str | None) -> None:
        self._client = client
        self._session_id = session_id
        self._run_id = run_id
        self._cancelling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        loop, me = asyncio.get_running_loop(), asyncio.current_task()
        for number, reason in STOPS.items():
            # What is ignored stays so: `nohup` means it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._stop, reason, me)

    async def __aexit__(self, *_: object) -> None:
        for number in STOPS:
            asyncio.get_running_loop().remove_signal_handler(number)
        if self._cancelling is not None:
            self._cancelling.cancel()
            await asyncio.wait([self._cancelling])

    def _stop(self, reason: str, waiting: "asyncio.Task[object] | None") -> None:
        run_id = self._run_id
        if self._cancelling is not None or run_id is None:
            if waiting is not None:
                waiting.cancel()
            return
        self._cancelling = asyncio.get_running_loop().create_task(self._cancel(run_id, reason))

    async def _cancel(self, run_id: str, reason: str) -> None:
        # A refusal means that the run is over already.
        with contextlib.suppress(ProtocolError, ConnectionError):
            await self._client.cancel(self._session_id, run_id, reason)


async def _session_of(client: Client, options: argparse.Namespace) -> str:
    if options.last:
        return await last_session(client, options.directory)
    if not options.session_id:
        raise UserError("which session?", hint="buddy resume ID, or buddy resume --last; buddy session list shows them")
    return await find_session(client, options.session_id, options.directory)


def _session_wish(options: argparse.Namespace) -> StartSession:
    seconds = parse_duration(options.max_time) if options.max_time else None
    if options.max_time and seconds is None:
        raise UserError(f"--max-time {options.max_time} is not a duration", hint="such as 90s, 10m or 1h")
    for name in ("max_turns", "max_tokens", "max_rounds", "max_cost"):
        if (value := getattr(options, name)) is not None and value <= 0:
            raise UserError(f"--{name.replace('_', '-')} must be more than 0")
    return StartSession(
        "headless",
        options.profile or "default",
        target_of(options),
        Repo(workspace_of(options)),
        {"source": "cli"},
        SessionOptions(
            agent_runtime=options.agent_runtime,
            profile=options.profile,
            model=options.model,
            target=target_of(options),
            tmux=pane_of(options),
            sandbox=options.sandbox,
            plan=options.plan,
            approval_policy=_policy(options),
            budget=BudgetLimits(options.max_turns, options.max_cost, options.max_tokens, seconds),
        ),
    )


def _policy(options: argparse.Namespace) -> str:
    """Asking needs somebody who can answer; without a terminal it is no."""
    policy = options.approve or "ask"
    parse_policy(policy, 0)
    return "none" if policy == "ask" and not _asks(options) else policy


def _asks(options: argparse.Namespace) -> bool:
    wants = getattr(options, "approve", None) in (None, "ask")
    return wants and sys.stdin.isatty() and sys.stderr.isatty()


def _criteria(options: argparse.Namespace) -> tuple[Criterion, ...]:
    return tuple(Criterion(f"accept-{number}", check) for number, check in enumerate(options.accept, 1))


def _check_cost(options: argparse.Namespace) -> None:
    if options.max_cost is None:
        return
    from buddy.cli.model import find_prices
    from buddy.config.resolve import resolve_profile

    found = resolve_profile(read_config(options), os.environ, options.profile, options.model)
    if find_prices(found, places_of(options).config_dir / "auth.json") is None:
        raise UserError(
            f"--max-cost cannot hold: the price of {found.model or found.profile} is not known",
            hint=f"set input_price and output_price in [models.{found.profile}], or use --max-tokens",
        )


def _run(work: Coroutine[object, object, int]) -> int:
    try:
        return asyncio.run(work)
    except asyncio.CancelledError:
        return INTERRUPTED
