"""Slash commands that show something: status, context, cost, active runs, sessions, differences."""

import asyncio
import shutil
import time

from msgspec import Struct

from buddy.client.opening import first_prompt
from buddy.errors import UserError
from buddy.protocol.requests import GetSnapshot, GetSnapshotReply, ListSessions, ListSessionsReply
from buddy.protocol.shapes import ContextState, SessionSummary
from buddy.terminal.conversation import Facts
from buddy.terminal.desk import Desk
from buddy.terminal.escape import escape, one_line
from buddy.terminal.liveness import amount, duration

ACTIVE = ("running", "awaiting_approval")
LISTED = 20
ALL = 200
BAR = 30
INIT = (
    "Look at this repository and write AGENTS.md in its root for agents that will work here: what it is, how it is "
    "laid out, how to build, test and lint it, and the conventions that its code shows. Keep it under 60 lines; where "
    "an AGENTS.md exists, improve it."
)


class ActiveRun(Struct, frozen=True):
    session_id: str
    run_id: str
    state: str
    seconds: float
    root: str


async def active_runs(desk: Desk) -> list[ActiveRun]:
    """The active runs of this runtime, oldest session first."""
    client = desk.talk.client
    found = (await client.request(ListSessions(ALL), ListSessionsReply)).sessions
    runs: list[ActiveRun] = []
    for summary in reversed(found):
        if summary.state in ACTIVE:
            shown = await client.request(GetSnapshot(), GetSnapshotReply, summary.session_id)
            if shown.active_run_id:
                seconds = shown.budget.seconds if shown.budget else 0.0
                runs.append(
                    ActiveRun(summary.session_id, shown.active_run_id, shown.state, seconds, summary.repo.root_path)
                )
    return runs


async def find_run(desk: Desk, wanted: str) -> ActiveRun:
    """The run that a number of /ps, an id or its end means; without any, the only one there is."""
    runs = await active_runs(desk)
    if not runs:
        raise UserError("no run is active")
    if not wanted:
        if len(runs) > 1:
            raise UserError(f"{counted(len(runs), 'run')} are active: say which", hint="/ps lists them")
        return runs[0]
    number = wanted.removeprefix("#")
    if number.isdecimal() and 1 <= int(number) <= len(runs):
        return runs[int(number) - 1]
    found = [run for run in runs if run.run_id.endswith(wanted) or run.session_id == wanted]
    if len(found) != 1:
        raise UserError(f"no running task with id {wanted[:40]}", hint="/ps lists them")
    return found[0]


async def show_ps(desk: Desk, _: str) -> None:
    runs = await active_runs(desk)
    if not runs:
        desk.tell("  no run is active")
    for number, run in enumerate(runs, start=1):
        here = " (this session)" if run.session_id == desk.talk.session_id else ""
        state = run.state.replace("_", " ")
        desk.tell(f"  #{number}  {run.run_id}  {state}  {duration(run.seconds)}  {escape(run.root)}{here}")


async def show_status(desk: Desk, _: str) -> None:
    talk, style = desk.talk, desk.style
    facts, runtime = talk.facts, talk.client.runtime
    runs = talk.view.runs.values()
    read, written = sum(run.input_tokens for run in runs), sum(run.output_tokens for run in runs)
    state = talk.view.state.replace("_", " ") if talk.session_id else "starts with your first message"
    endpoint, tools = await asyncio.to_thread(talk.around.describe, facts.profile, bool(facts.watch))
    rows = [
        ("model", " · ".join(filter(None, (facts.profile, facts.model))) or "the configured one"),
        ("endpoint", endpoint),
        ("session", f"{talk.session_id} ({state})" if talk.session_id else state),
        ("workspace", facts.root),
        ("target", f"{facts.target}, sandbox {facts.sandbox}"),
        ("pane", facts.watch),
        ("approvals", policy_text(facts.policy, facts.policy_until)),
        ("tools", ", ".join(tools)),
        ("so far", f"{counted(len(talk.said), 'message')}, {amount(read)} tokens in, {amount(written)} out"),
        ("runtime", f"{runtime.runtime_name} {runtime.runtime_version}" if runtime else "gone"),
    ]
    desk.tell("\n".join(f"  {style.dim(f'{name:<10}')} {escape(text)}" for name, text in rows if text))


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def policy_text(policy: str, until: int | None) -> str:
    if policy == "until" and until is not None:
        return f"nothing is asked for another {duration(max(0.0, until / 1000 - time.time()))}"
    words = {"ask": "ask", "all": "all (nothing is asked)", "none": "none (everything is denied)"}
    return words.get(policy) or f"nothing is asked for {policy}"


def prompt_text(target: str) -> str:
    """`> ` here, `(ssh user@host)> ` or `(container name)> ` elsewhere."""
    kind, _, name = target.partition(":")
    return f"({one_line(kind, 20)} {one_line(name, 40)})> " if name else "> "


def toolbar_text(facts: Facts) -> str:
    parts = [f"approvals: {policy_text(facts.policy, facts.policy_until)} (shift-tab)"]
    if facts.model or facts.profile:
        parts.append(one_line(facts.model or facts.profile, 40))
    if facts.context is not None:
        parts.append(f"context {facts.context.used / facts.context.limit:.0%}")
    return " · ".join([*parts, "/help"])


async def show_context(desk: Desk, _: str) -> None:
    talk = desk.talk
    if not talk.session_id:
        desk.tell("  nothing was said yet")
        return
    context = (await talk.client.request(GetSnapshot(), GetSnapshotReply, talk.session_id)).context
    share = min(1.0, context.used / context.limit)
    filled = round(share * BAR)
    bar = desk.style.cyan("█" * filled) + desk.style.dim("░" * (BAR - filled))
    desk.tell(f"  {bar} {share:.0%} · {amount(context.used)} of {amount(context.limit)} tokens")
    for name, tokens in parts_of(context):
        desk.tell(f"  {name:<22} {amount(tokens):>6}  {tokens / context.limit:>4.0%}")
    runs = talk.view.runs.values()
    read, written = sum(run.input_tokens for run in runs), sum(run.output_tokens for run in runs)
    desk.tell(desk.style.dim(f"  in this session {amount(read)} tokens in, {amount(written)} out"))


def parts_of(context: ContextState) -> list[tuple[str, int]]:
    """What the window is filled with, as far as it was counted."""
    parts = {
        "system prompt": context.system,
        "tools": context.tools,
        "memory": context.memory,
        "summary": context.summary,
        "messages": context.history,
        "kept for the reply": context.buffer,
    }
    return [(name, tokens) for name, tokens in parts.items() if tokens]


async def show_cost(desk: Desk, _: str) -> None:
    runs = desk.talk.view.runs.values()
    prices = [run.cost_usd for run in runs if run.cost_usd is not None]
    read, written = sum(run.input_tokens for run in runs), sum(run.output_tokens for run in runs)
    price = f"${sum(prices):.4f}" if prices else "the price of this model is not known"
    desk.tell(f"  {price} · {amount(read)} tokens in, {amount(written)} out, {counted(len(runs), 'run')}")


class Listed(Struct, frozen=True):
    """A session, and what it began with."""

    summary: SessionSummary
    prompt: str

    @property
    def line(self) -> str:
        ago = duration(max(0.0, time.time() - self.summary.updated_at / 1000))
        return f"{self.summary.state.replace('_', ' ')} · {ago} ago · {one_line(self.prompt, 60)}".removesuffix(" · ")


async def sessions_here(desk: Desk) -> list[Listed]:
    """The sessions of this workspace, the last one used first."""
    client = desk.talk.client
    found = (await client.request(ListSessions(LISTED, desk.talk.around.root), ListSessionsReply)).sessions
    return [Listed(summary, summary.title or await first_prompt(client, summary.session_id)) for summary in found]


async def show_diff(desk: Desk, _: str) -> None:
    """What changed in the workspace since the last commit."""
    if shutil.which("git") is None:
        raise UserError("git is not installed")
    git = ["git", "-C", desk.talk.facts.root, "--no-pager"]
    if await desk.run_local([*git, "status", "--short", "--branch"]) == 0:
        await desk.run_local([*git, "diff", "--no-ext-diff", "HEAD"])


async def show_permissions(desk: Desk, _: str) -> None:
    around = desk.talk.around
    await desk.run_local([*around.command, "approvals", "list", *around.flags])


async def show_doctor(desk: Desk, _: str) -> None:
    around = desk.talk.around
    await desk.run_local([*around.command, "doctor", *around.flags])


async def export(desk: Desk, name: str) -> None:
    talk = desk.talk
    if not talk.session_id:
        raise UserError("nothing was said yet")
    path = name or f"{talk.session_id}.jsonl"
    count = await talk.around.export(talk.client, talk.session_id, path)
    desk.tell(f"  wrote {count} events to {escape(path)}")
