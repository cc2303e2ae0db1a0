"""Slash commands that show something: status, context, cost, active runs, diffs."""

import asyncio
import time

from msgspec import Struct

from buddy.client.opening import first_prompt
from buddy.errors import UserError
from buddy.git import open_repository
from buddy.protocol.requests import GetSnapshot, GetSnapshotReply, ListSessions, ListSessionsReply
from buddy.protocol.shapes import ContextState, SessionSummary
from buddy.terminal.command_ui import CommandUI
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.escape import escape, one_line
from buddy.terminal.phrases import format_duration, format_tokens, plural

ACTIVE = ("running", "awaiting_approval")
LISTED = 20
ALL = 200
BAR = 30
NOTHING_SENT = "no messages yet"


class RunStatus(Struct, frozen=True):
    session_id: str
    run_id: str
    state: str
    seconds: float
    root: str


async def active_runs(ui: CommandUI) -> list[RunStatus]:
    """The active runs of the daemon, oldest session first."""
    client = ui.session.client
    found = (await client.request(ListSessions(ALL), ListSessionsReply)).sessions
    runs: list[RunStatus] = []
    for summary in reversed(found):
        if summary.state in ACTIVE:
            snapshot = await client.request(GetSnapshot(), GetSnapshotReply, summary.session_id)
            if snapshot.active_run_id:
                seconds = snapshot.budget.seconds if snapshot.budget else 0.0
                root = summary.repo.root_path
                runs.append(RunStatus(summary.session_id, snapshot.active_run_id, snapshot.state, seconds, root))
    return runs


async def find_run(ui: CommandUI, wanted: str) -> RunStatus:
    """A run by its number in /ps, by its id or the end of it; without any of these, the only active run."""
    runs = await active_runs(ui)
    if not runs:
        raise UserError("no run is active")
    if not wanted:
        if len(runs) > 1:
            raise UserError(f"{plural(len(runs), 'run')} are active; name one", hint="/ps lists them")
        return runs[0]
    number = wanted.removeprefix("#")
    if number.isdecimal() and 1 <= int(number) <= len(runs):
        return runs[int(number) - 1]
    found = [run for run in runs if run.run_id.endswith(wanted) or run.session_id == wanted]
    if len(found) != 1:
        raise UserError(f"no active run {wanted[:40]!r}", hint="/ps lists them")
    return found[0]


async def show_ps(ui: CommandUI, _: str) -> None:
    runs = await active_runs(ui)
    if not runs:
        ui.show("  no run is active")
    for number, run in enumerate(runs, start=1):
        here = " (this session)" if run.session_id == ui.session.session_id else ""
        state = run.state.replace("_", " ")
        ui.show(f"  #{number}  {run.run_id}  {state}  {format_duration(run.seconds)}  {escape(run.root)}{here}")


async def show_status(ui: CommandUI, _: str) -> None:
    session, style = ui.session, ui.style
    facts, runtime = session.facts, session.client.runtime
    state = session.view.state.replace("_", " ") if session.session_id else "starts with your first message"
    details = await asyncio.to_thread(ui.settings.profiles.describe, facts.profile, bool(facts.watch))
    endpoint = await _endpoint_in_use(session) if session.session_id else details.endpoint
    rows = [
        ("model", " · ".join(filter(None, (facts.profile, facts.model))) or "the configured default"),
        ("endpoint", endpoint),
        ("session", f"{session.session_id} ({state})" if session.session_id else state),
        ("workspace", facts.root),
        ("target", f"{facts.target}, sandbox {facts.sandbox}"),
        ("pane", facts.watch),
        ("approvals", facts.policy_text(time.time())),
        ("tools", ", ".join(details.tools)),
        ("used", f"{plural(len(session.messages), 'message')}, {_tokens_used(session)}"),
        ("daemon", f"{runtime.runtime_name} {runtime.runtime_version}" if runtime else "not connected"),
    ]
    ui.show("\n".join(f"  {style.dim(f'{name:<10}')} {escape(text)}" for name, text in rows if text))


async def _endpoint_in_use(session: CurrentSession) -> str:
    """Where the session's model is, as the runtime says."""
    used = (await session.client.request(GetSnapshot(), GetSnapshotReply, session.session_id)).model
    return used.base_url if used else ""


def _tokens_used(session: CurrentSession) -> str:
    runs = session.view.runs.values()
    read, written = sum(run.input_tokens for run in runs), sum(run.output_tokens for run in runs)
    return f"{format_tokens(read)} tokens in, {format_tokens(written)} out"


async def show_context(ui: CommandUI, _: str) -> None:
    session, style = ui.session, ui.style
    if not session.session_id:
        ui.show(f"  {NOTHING_SENT}")
        return
    context = (await session.client.request(GetSnapshot(), GetSnapshotReply, session.session_id)).context
    share = min(1.0, context.used / context.limit)
    filled = round(share * BAR)
    bar = style.cyan("█" * filled) + style.dim("░" * (BAR - filled))
    ui.show(f"  {bar} {share:.0%} · {format_tokens(context.used)} of {format_tokens(context.limit)} tokens")
    for name, tokens in _context_parts(context):
        ui.show(f"  {name:<22} {format_tokens(tokens):>6}  {tokens / context.limit:>4.0%}")
    ui.show(style.dim(f"  used in this session: {_tokens_used(session)}"))


def _context_parts(context: ContextState) -> list[tuple[str, int]]:
    """What fills the context window, as far as it was counted."""
    parts = {
        "system prompt": context.system,
        "tools": context.tools,
        "memory": context.memory,
        "summary": context.summary,
        "messages": context.history,
        "reserved for the reply": context.buffer,
    }
    return [(name, tokens) for name, tokens in parts.items() if tokens]


async def show_cost(ui: CommandUI, _: str) -> None:
    runs = ui.session.view.runs.values()
    prices = [run.cost_usd for run in runs if run.cost_usd is not None]
    price = f"${sum(prices):.4f}" if prices else "no known price for this model"
    ui.show(f"  {price} · {_tokens_used(ui.session)}, {plural(len(runs), 'run')}")


class ListedSession(Struct, frozen=True):
    """A session and its first message."""

    summary: SessionSummary
    prompt: str

    @property
    def line(self) -> str:
        ago = format_duration(max(0.0, time.time() - self.summary.updated_at / 1000))
        return f"{self.summary.state.replace('_', ' ')} · {ago} ago · {one_line(self.prompt, 60)}".removesuffix(" · ")


async def list_sessions(ui: CommandUI) -> list[ListedSession]:
    """The sessions of this workspace, most recently used first."""
    client, root = ui.session.client, ui.session.initial.root
    found = (await client.request(ListSessions(LISTED, root), ListSessionsReply)).sessions
    return [
        ListedSession(summary, summary.title or await first_prompt(client, summary.session_id)) for summary in found
    ]


async def show_diff(ui: CommandUI, _: str) -> None:
    """What changed in the workspace since the last commit."""
    with open_repository(ui.session.facts.root) as git:
        if await ui.run_program(git.show_status(), git.environment) == 0:
            await ui.run_program(git.show_changes(), git.environment)


async def show_permissions(ui: CommandUI, _: str) -> None:
    await ui.run_program(ui.settings.buddy.command("approvals", "list"))


async def show_doctor(ui: CommandUI, _: str) -> None:
    await ui.run_program(ui.settings.buddy.command("doctor"))


async def export(ui: CommandUI, name: str) -> None:
    session = ui.session
    if not session.session_id:
        raise UserError(NOTHING_SENT)
    path = name or f"{session.session_id}.jsonl"
    count = await session.access.export(session.session_id, path)
    ui.show(f"  wrote {plural(count, 'event')} to {escape(path)}")
