"""Slash commands that change something: the model, the policy, the session, a run."""

import time

from buddy.errors import ProtocolError, UserError
from buddy.protocol.durations import parse_duration
from buddy.protocol.requests import (
    AcceptedReply,
    CancelRun,
    CompactSession,
    CompactSessionReply,
    RenameSession,
    SetApprovalPolicy,
    SwitchModel,
    SwitchModelReply,
)
from buddy.terminal.command_ui import CommandUI
from buddy.terminal.escape import escape
from buddy.terminal.phrases import format_duration, format_tokens
from buddy.terminal.show_commands import NOTHING_SENT, find_run, list_sessions, show_folded

INIT_PROMPT = (
    "Look at this repository and write AGENTS.md in its root for agents that will work here: what it is, how it is "
    "laid out, how to build, test and lint it, and the conventions that its code shows. Keep it under 60 lines; where "
    "an AGENTS.md exists, improve it."
)
CONFIRM_ALL = "Approve everything without asking, until you change it?"


async def switch_model(ui: CommandUI, wanted: str) -> None:
    """Switch to a profile by its name or its number in the list; without either, show the list."""
    session, models = ui.session, ui.settings.profiles.models()
    names = list(models)
    if not wanted:
        if not names:
            raise UserError("no profiles are configured", hint="add [models.NAME] to buddy.toml, or run buddy login")
        now = names.index(session.facts.profile) if session.facts.profile in names else 0
        choices = [f"{name}  {model}".rstrip() for name, model in models.items()]
        ui.choose("Choose a model", choices, lambda index: ui.enqueue(f"/model {names[index]}"), now)
        return
    if wanted.isdecimal() and wanted not in names:
        if not 1 <= int(wanted) <= len(names):
            raise UserError(f"no profile number {wanted[:10]}; choose 1 to {len(names)}", hint="/model lists them")
        wanted = names[int(wanted) - 1]
    if names and wanted not in names:
        raise UserError(f"unknown profile {wanted[:40]!r}. Available: {', '.join(names)}", hint="/model lists them")
    await session.client.request(SwitchModel(profile=wanted), SwitchModelReply, await session.ensure_started())


async def set_policy(ui: CommandUI, wanted: str) -> None:
    """Set a policy, or a duration for which everything is approved; without either, show the policy."""
    match wanted:
        case "":
            facts = ui.session.facts
            ui.show(f"  approvals: {facts.policy_text(time.time())}")
            ui.show("  change it with /approve ask, auto, all, none, or a duration such as 10m")
        case "all":
            if await ui.confirm(CONFIRM_ALL):
                await ui.session.set_policy(SetApprovalPolicy("all"))
        case "ask" | "auto" | "none":
            await ui.session.set_policy(SetApprovalPolicy(wanted))
        case _:
            seconds = parse_duration(wanted)
            if seconds is None:
                raise UserError(
                    f"unknown approval policy {wanted[:40]!r}",
                    hint="use ask, auto, all, none, or a duration such as 10m",
                )
            await ui.session.set_policy(SetApprovalPolicy("until", seconds))


async def set_plan(ui: CommandUI, wanted: str) -> None:
    """Switch plan mode, in which the session only reads."""
    if wanted not in ("", "on", "off"):
        raise UserError(f"unknown /plan option {wanted[:40]!r}", hint="/plan, /plan on, /plan off")
    is_on = wanted == "on" if wanted else not ui.session.facts.plan
    await ui.session.set_policy(SetApprovalPolicy(plan=is_on))


async def kill(ui: CommandUI, wanted: str) -> None:
    if not wanted:
        raise UserError("no run given", hint="/kill <id>; /ps lists them")
    run = await find_run(ui, wanted)
    await ui.session.client.cancel(run.session_id, run.run_id)
    if run.session_id != ui.session.session_id:
        ui.show(f"  stopping {run.run_id}")


async def set_timeout(ui: CommandUI, wanted: str) -> None:
    text, name = [*wanted.split(maxsplit=1), "", ""][:2]
    seconds = parse_duration(text) if text else None
    if seconds is None:
        problem = f"{text[:40]!r} is not a duration" if text else "no duration given"
        raise UserError(problem, hint="/timeout <duration> [id], such as /timeout 10m")
    run = await find_run(ui, name)
    later = CancelRun(run.session_id, run.run_id, "timeout", seconds)
    await ui.session.client.request(later, AcceptedReply, run.session_id)
    if run.session_id != ui.session.session_id:
        ui.show(f"  Will cancel {run.run_id} in {format_duration(seconds)}")


async def manage_sessions(ui: CommandUI, wanted: str) -> None:
    action, rest = [*wanted.split(maxsplit=1), "", ""][:2]
    match action:
        case "":
            rows = (f"  {listed.summary.session_id}  {escape(listed.line)}" for listed in await list_sessions(ui))
            show_folded(ui, "\n".join(rows) or "  no sessions in this folder")
        case "resume":
            await resume(ui, rest)
        case "new":
            await start_new(ui, "")
        case _:
            raise UserError(
                f"unknown /session action {action[:40]!r}", hint="/session, /session resume <id|last>, /session new"
            )


async def resume(ui: CommandUI, wanted: str) -> None:
    if wanted:
        await ui.switch_session(await ui.session.access.find(wanted))
        return
    found = await list_sessions(ui, everywhere=True)
    if not found:
        raise UserError("no sessions in this folder", hint="nor in any other")
    ui.choose(
        "Resume a session",
        [listed.line for listed in found],
        lambda index: ui.enqueue(f"/resume {found[index].summary.session_id}"),
        found_by=[listed.searched for listed in found],
    )


async def start_new(ui: CommandUI, _: str) -> None:
    await ui.switch_session(None)


async def clear(ui: CommandUI, _: str) -> None:
    await ui.switch_session(None)
    if ui.screen is not None:
        ui.screen.clear()


async def rename(ui: CommandUI, title: str) -> None:
    session = ui.session
    if not session.session_id:
        raise UserError(NOTHING_SENT)
    if not title:
        raise UserError("no title given", hint="/rename <title>")
    await session.client.request(RenameSession(title), RenameSession, session.session_id)


async def fork(ui: CommandUI, _: str) -> None:
    """Continue in a copy of this session."""
    if not ui.session.session_id:
        raise UserError(NOTHING_SENT)
    await fork_at(ui, ui.session.view.last_seq)


async def fork_at(ui: CommandUI, seq: int) -> None:
    """Continue in a copy that ends at an event."""
    try:
        forked = await ui.session.fork(seq)
    except ProtocolError as error:
        if error.code != "UNSUPPORTED_REQUEST_TYPE":
            raise
        raise UserError("this daemon can't fork sessions", hint="/new starts a new one") from error
    await ui.switch_session(forked)


async def compact(ui: CommandUI, wanted: str) -> None:
    session = ui.session
    if not session.session_id:
        raise UserError(NOTHING_SENT)
    if wanted not in ("", "undo"):
        raise UserError(f"unknown /compact option {wanted[:40]!r}", hint="/compact, /compact undo")
    undo = wanted == "undo"
    reply = await session.client.request(CompactSession(undo), CompactSessionReply, session.session_id)
    if reply.before_tokens == reply.after_tokens:
        ui.show(f"  nothing to {'undo' if undo else 'compact'}: {format_tokens(reply.before_tokens)} tokens")


async def steer(ui: CommandUI, text: str) -> None:
    if not text:
        raise UserError("no text given", hint="/steer <text>")
    await ui.session.steer(text)
    ui.show(ui.style.dim(f"  Will be delivered at the next turn: {escape(text)}"))


async def send_as_is(ui: CommandUI, text: str) -> None:
    """Send a message of which only registered secrets are redacted."""
    text = text or ui.session.last_sent
    if not text:
        raise UserError("no message to send again", hint="/send-as-is <text>")
    sent = await ui.session.send(text, as_is=True)
    if sent.position:
        ui.show(ui.style.dim(f"  queued ({sent.position}), as it is"))


async def write_agents_file(ui: CommandUI, _: str) -> None:
    await ui.session.send(INIT_PROMPT)


async def login(ui: CommandUI, profile: str) -> None:
    await ui.lend_terminal(ui.settings.buddy.command("login", *([profile] if profile else [])))


async def quit_terminal(ui: CommandUI, _: str) -> None:
    ui.quit()
