"""Slash commands that show something: status, context, cost, active runs, diffs."""

import asyncio
import os
import time

from msgspec import Struct

from buddy.errors import UserError
from buddy.git import Git, open_repository
from buddy.protocol.events import AssistantMessage, ToolResult
from buddy.protocol.grant_requests import ListGrants, ListGrantsReply, RevokeGrant
from buddy.protocol.requests import (
    AcceptedReply,
    GetSnapshot,
    GetSnapshotReply,
    ListSessions,
    ListSessionsReply,
)
from buddy.protocol.shapes import ContextState, Grant, SessionSummary
from buddy.terminal.blocks import diff_block
from buddy.terminal.clipboard import copy_text
from buddy.terminal.command_ui import CommandUI
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.escape import escape, one_line
from buddy.terminal.phrases import format_duration, format_tokens, grant_text, plural, short_path, watch_command
from buddy.terminal.tool_outputs import heading, read_output
from buddy.terminal.wrap import fold

ACTIVE = ("running", "awaiting_approval")
LISTED = 20
ALL = 200
BAR = 30
MOST_RULES = 5
NEW_FILES = 20
GIT_SECONDS = 10.0
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
    found = (await client.request(ListSessions(ALL, archived="all"), ListSessionsReply)).sessions
    runs: list[RunStatus] = []
    for summary in reversed(found):
        if summary.state in ACTIVE:
            snapshot = await client.request(GetSnapshot(), GetSnapshotReply, summary.session_id)
            if snapshot.active_run_id:
                seconds = snapshot.budget.seconds if snapshot.budget else 0.0
                root = summary.repo.root_path
                runs.append(RunStatus(summary.session_id, snapshot.active_run_id, snapshot.state, seconds, root))
    return runs


def _is_part(part: str, name: str) -> bool:
    return bool(part) and (name.startswith(part) or name.endswith(part))


async def find_run(ui: CommandUI, wanted: str) -> RunStatus:
    """A run by its number in /ps, or by its id, its start or its end; without any of these, the only active run."""
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
    part = wanted.removeprefix("run_").upper()
    found = [run for run in runs if run.session_id == wanted or _is_part(part, run.run_id.removeprefix("run_"))]
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
        ("pane", watch_command(facts.watch, os.environ)),
        ("approvals", facts.policy_text(time.time())),
        *[("granted", f"{grant_text(grant, time.time())} ({grant.grant_id})") for grant in await _grants(session)],
        *_rule_rows(details.rules),
        ("tools", ", ".join(details.tools)),
        ("used", f"{plural(len(session.messages), 'message')}, {_tokens_used(session)}"),
        ("daemon", f"{runtime.runtime_name} {runtime.runtime_version}" if runtime else "not connected"),
    ]
    for name, text in rows:
        if text:
            show_folded(ui, f"  {style.dim(f'{name:<10}')} {escape(text)}", indent=13)


def _rule_rows(rules: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """The rules that "always" and the file made, the latest first."""
    shown = [("rule", f"{text} ({rule_id})") for rule_id, text in reversed(rules[-MOST_RULES:])]
    left = len(rules) - len(shown)
    return [*shown, *([("", f"… {plural(left, 'more rule')}: /permissions")] if left else [])]


def show_folded(ui: CommandUI, text: str, indent: int | None = None) -> None:
    """Show a text whose long lines break between words, if that is a screen."""
    ui.show(fold(text, ui.screen.columns, indent) if ui.screen else text)


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
    if context.limit <= 1:
        ui.show("  not known before the first reply")
        return
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
    unpriced = sum(run.cost_usd is None and run.input_tokens + run.output_tokens > 0 for run in runs)
    facts = [f"${sum(prices):.4f}"] if prices else [] if unpriced else ["no cost yet"]
    if unpriced:
        facts.append(f"{plural(unpriced, 'run')} without a known price, not counted")
    ui.show(f"  {' · '.join(facts)} · {_tokens_used(ui.session)}, {plural(len(runs), 'run')}")


class ListedSession(Struct, frozen=True):
    """A session in a list; `folder` is shown if it is not the one of this terminal."""

    summary: SessionSummary
    folder: str = ""

    @property
    def line(self) -> str:
        ago = format_duration(max(0.0, time.time() - self.summary.updated_at / 1000))
        title = one_line(self.summary.title or "(no messages)", 60)
        parts = (self.summary.state.replace("_", " "), f"{ago} ago", title, one_line(self.folder, 60))
        return " · ".join(filter(None, parts))

    @property
    def searched(self) -> str:
        repo = self.summary.repo
        return "\n".join(filter(None, (self.line, repo.root_path, repo.current_branch, self.summary.session_id)))


async def list_sessions(ui: CommandUI, *, everywhere: bool = False) -> list[ListedSession]:
    """The sessions of this workspace, most recently used first, and then those of other folders."""
    client, root = ui.session.client, ui.session.initial.root
    here = (await client.request(ListSessions(ALL if everywhere else LISTED, root), ListSessionsReply)).sessions
    found = [ListedSession(summary) for summary in here]
    if everywhere:
        others = (await client.request(ListSessions(ALL), ListSessionsReply)).sessions
        away = (summary for summary in others if summary.repo.root_path != root)
        found += [ListedSession(summary, short_path(summary.repo.root_path)) for summary in away]
    return found


async def copy_answer(ui: CommandUI, _: str) -> None:
    """Copy the last reply, as the model wrote it."""
    answer = ui.session.answer
    body = await ui.session.access.read_full(answer) if answer else None
    if not isinstance(body, AssistantMessage):
        raise UserError("there is no answer to copy yet")
    if ui.screen is None:
        raise UserError("/copy needs a terminal", hint="/export writes the session to a file")
    await copy_text(body.text, ui.screen.send, os.environ)
    ui.show(ui.style.dim(f"  Copied the last answer ({plural(len(body.text), 'character')})"))


async def show_output(ui: CommandUI, wanted: str) -> None:
    """The complete output of a tool call: 1 is the last."""
    if wanted and not wanted.isdecimal():
        raise UserError(f"{wanted[:40]!r} is not a number", hint="/show, or /show 2 for the call before the last")
    session = ui.session
    event = session.outputs.find(int(wanted or 1))
    body = await session.access.read_full(event)
    if isinstance(body, ToolResult):
        lines = await read_output(session.client, session.session_id, body)
        ui.show(f"{heading(body, ui.style)}\n{session.outputs.page(event.seq, lines, ui.style)}")


async def show_diff(ui: CommandUI, _: str) -> None:
    """What changed in the workspace since the last commit, new files included."""
    with open_repository(ui.session.facts.root) as git:
        if await ui.run_program(git.show_status(), git.environment) != 0:
            return
        has_commits = bool(await _git_output(git, git.find_head()))
        since = "HEAD" if has_commits else (await _git_output(git, git.find_empty_tree())).strip()
        if await ui.run_program(git.show_changes(since), git.environment) == 0:
            await _show_new_files(ui, git)


async def _show_new_files(ui: CommandUI, git: Git) -> None:
    names = [name for name in (await _git_output(git, git.list_new_files())).split("\0") if name]
    for name in names[:NEW_FILES]:
        ui.show(diff_block(await _git_output(git, git.show_new_file(name)), ui.style))
    if len(names) > NEW_FILES:
        ui.show(ui.style.dim(f"  … {plural(len(names) - NEW_FILES, 'more new file')}"))


async def _git_output(git: Git, command: list[str]) -> str:
    """The output of a git that says little; empty if it fails or takes long."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=git.environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(GIT_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        return ""
    return output.decode(errors="replace")


async def manage_permissions(ui: CommandUI, words: str) -> None:
    """List the rules and what is granted in this session, or take one of them back."""
    action, _, wanted = words.partition(" ")
    if not words:
        await ui.run_program(ui.settings.buddy.command("approvals", "list", "--no-grants"))
        granted = [f"  {grant.grant_id}  {grant_text(grant, time.time())}" for grant in await _grants(ui.session)]
        if granted:
            show_folded(ui, "\n".join([*granted, ui.style.dim("  /permissions revoke <id> ends a grant")]))
    elif action.lower() == "revoke" and wanted:
        await _revoke(ui, wanted.strip())
    else:
        raise UserError(f"unknown /permissions action {words[:40]!r}", hint="/permissions, or /permissions revoke <id>")


async def _revoke(ui: CommandUI, wanted: str) -> None:
    session, end = ui.session, wanted.upper().removeprefix("APPR_")
    found = [grant for grant in await _grants(session) if _is_part(end, grant.grant_id.removeprefix("appr_"))]
    if len(found) > 1:
        raise UserError(f"{plural(len(found), 'grant')} match {wanted[:40]!r}", hint="type more of the id")
    if found:
        await session.client.request(RevokeGrant(found[0].grant_id), AcceptedReply, session.session_id)
    else:
        await ui.run_program(ui.settings.buddy.command("approvals", "revoke", wanted))


async def _grants(session: CurrentSession) -> tuple[Grant, ...]:
    if not session.session_id:
        return ()
    return (await session.client.request(ListGrants(), ListGrantsReply, session.session_id)).grants


async def show_doctor(ui: CommandUI, _: str) -> None:
    await ui.run_program(ui.settings.buddy.command("doctor"))


async def export(ui: CommandUI, name: str) -> None:
    session = ui.session
    if not session.session_id:
        raise UserError(NOTHING_SENT)
    path = name or f"{session.session_id}.jsonl"
    count = await session.access.export(session.session_id, path)
    ui.show(f"  wrote {plural(count, 'event')} to {escape(path)}")
