"""Slash commands that change something: the model, the policy, the session, a run."""

from buddy.errors import ProtocolError, UserError
from buddy.protocol.requests import CompactSession, CompactSessionReply, SwitchModel, SwitchModelReply
from buddy.terminal.desk import Desk
from buddy.terminal.escape import escape
from buddy.terminal.liveness import amount, duration
from buddy.terminal.looking import INIT, find_run, policy_text, sessions_here


async def switch_model(desk: Desk, wanted: str) -> None:
    """A profile by its name or its number in the list; without any, the list."""
    profiles = desk.talk.around.profiles
    names = [name for name, _ in profiles]
    if not wanted:
        if not names:
            raise UserError("no profiles are configured", hint="[models.NAME] in buddy.toml, or buddy login")
        now = names.index(desk.talk.facts.profile) if desk.talk.facts.profile in names else 0
        choices = [f"{name}  {model}".rstrip() for name, model in profiles]
        desk.pick("model", choices, lambda index: desk.later(f"/model {names[index]}"), now)
        return
    if wanted.isdecimal() and wanted not in names:
        if not 1 <= int(wanted) <= len(names):
            raise UserError(f"there are {len(names)} profiles", hint="/model lists them")
        wanted = names[int(wanted) - 1]
    if names and wanted not in names:
        raise UserError(f"no profile {wanted[:40]!r}; there are {', '.join(names)}", hint="/model lists them")
    talk = desk.talk
    await talk.client.request(SwitchModel(profile=wanted), SwitchModelReply, await talk.ensure())


async def set_policy(desk: Desk, wanted: str) -> None:
    if not wanted:
        facts = desk.talk.facts
        desk.tell(f"  approvals: {policy_text(facts.policy, facts.policy_until)}; /approve ask|all|none|10m changes it")
        return
    await desk.talk.set_policy(wanted)


async def kill(desk: Desk, wanted: str) -> None:
    if not wanted:
        raise UserError("which run?", hint="/kill <id>; /ps lists them")
    run = await find_run(desk, wanted)
    await desk.talk.client.cancel(run.session_id, run.run_id)
    if run.session_id != desk.talk.session_id:
        desk.tell(f"  cancelling {run.run_id}")


async def set_timeout(desk: Desk, wanted: str) -> None:
    text, named = [*wanted.split(maxsplit=1), "", ""][:2]
    seconds = desk.talk.around.seconds(text) if text else None
    if seconds is None:
        what = f"{text[:40]!r} is no duration" if text else "how long?"
        raise UserError(what, hint="/timeout <duration> [id], such as /timeout 10m")
    run = await find_run(desk, named)
    desk.set_deadline(run.session_id, run.run_id, seconds)
    desk.tell(f"  {run.run_id} is cancelled in {duration(seconds)}, while this terminal is open")


async def session(desk: Desk, wanted: str) -> None:
    action, rest = [*wanted.split(maxsplit=1), "", ""][:2]
    match action:
        case "":
            found = await sessions_here(desk)
            rows = (f"  {one.summary.session_id}  {escape(one.line)}" for one in found)
            desk.tell("\n".join(rows) or "  no sessions here")
        case "resume":
            await resume(desk, rest)
        case "new":
            await new(desk, "")
        case _:
            raise UserError(f"no /session {action[:40]}", hint="/session, /session resume <id|last>, /session new")


async def resume(desk: Desk, wanted: str) -> None:
    if wanted:
        await desk.switch(await desk.talk.around.find(desk.talk.client, wanted))
        return
    found = await sessions_here(desk)
    if not found:
        raise UserError("no sessions here")
    choices = [one.line for one in found]
    desk.pick("resume", choices, lambda index: desk.later(f"/resume {found[index].summary.session_id}"))


async def new(desk: Desk, _: str) -> None:
    await desk.switch(None)


async def fork(desk: Desk, _: str) -> None:
    """Go on in a copy of everything so far."""
    talk = desk.talk
    if not talk.session_id:
        raise UserError("nothing was said yet")
    await fork_at(desk, talk.view.last_seq)


async def fork_at(desk: Desk, seq: int) -> None:
    try:
        forked = await desk.talk.fork(seq)
    except ProtocolError as error:
        if error.code != "UNSUPPORTED_REQUEST_TYPE":
            raise
        raise UserError("this runtime cannot fork sessions", hint="/new starts a fresh one") from error
    await desk.switch(forked)


async def go_back(desk: Desk) -> None:
    """Choose an earlier message; what came before it goes on in a copy, the message is there to be changed."""
    said = desk.talk.said
    if not said:
        desk.tell("  nothing was said yet")
        return
    desk.pick("go back to", [text for _, text in said], lambda index: desk.later(f"/back {index + 1}"), len(said) - 1)


async def back(desk: Desk, wanted: str) -> None:
    said = desk.talk.said
    if not wanted.isdecimal() or not 1 <= int(wanted) <= len(said):
        await go_back(desk)
        return
    seq, text = said[int(wanted) - 1]
    await fork_at(desk, seq - 1)
    desk.put(text)


async def compact(desk: Desk, wanted: str) -> None:
    talk = desk.talk
    if not talk.session_id:
        raise UserError("nothing was said yet")
    if wanted not in ("", "undo"):
        raise UserError(f"no /compact {wanted[:40]}", hint="/compact, /compact undo")
    undo = wanted == "undo"
    done = await talk.client.request(CompactSession(undo), CompactSessionReply, talk.session_id)
    if done.before_tokens == done.after_tokens:
        desk.tell(f"  nothing to {'take back' if undo else 'compact'}: {amount(done.before_tokens)} tokens")


async def steer(desk: Desk, text: str) -> None:
    if not text:
        raise UserError("what should it be told?", hint="/steer TEXT")
    await desk.talk.steer(text)
    desk.tell(desk.style.dim(f"  it sees this at its next turn: {escape(text)}"))


async def init(desk: Desk, _: str) -> None:
    await desk.talk.say(INIT)


async def login(desk: Desk, wanted: str) -> None:
    around = desk.talk.around
    await desk.lend_terminal([*around.command, "login", *([wanted] if wanted else []), *around.flags])


async def leave(desk: Desk, _: str) -> None:
    desk.leave()
