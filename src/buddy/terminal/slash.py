"""The slash commands: one table of names, what they take, what they do, and whether they work while a run is active.

What always holds: while a run is active only those that look or steer are accepted; an unknown command is never sent to
the model.
"""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from buddy.errors import UserError
from buddy.terminal import acting, looking
from buddy.terminal.desk import Desk
from buddy.terminal.escape import escape

Handler = Callable[[Desk, str], Awaitable[None]]


class Command(Struct, frozen=True):
    name: str
    takes: str
    help: str
    handler: Handler
    while_active: bool = False


async def show_help(desk: Desk, _: str) -> None:
    style = desk.style
    width = max(len(f"{command.name} {command.takes}") for command in COMMANDS if command.help)
    rows = [
        f"  {style.cyan(f'{command.name} {command.takes}'.ljust(width))}  {command.help}"
        for command in COMMANDS
        if command.help
    ]
    desk.tell("\n".join([*rows, "", *(f"  {style.dim(line)}" for line in KEYS)]))


COMMANDS = (
    Command("/status", "", "model, session, workspace, approvals, counters", looking.show_status, while_active=True),
    Command("/model", "[name|index]", "switch the model; without a name, choose one", acting.switch_model),
    Command("/context", "", "how full the context window is", looking.show_context, while_active=True),
    Command("/compact", "[undo]", "replace old messages by a summary", acting.compact),
    Command("/cost", "", "what this session used", looking.show_cost),
    Command("/ps", "", "the active runs", looking.show_ps, while_active=True),
    Command("/kill", "<id>", "cancel a run", acting.kill, while_active=True),
    Command("/timeout", "<duration> [id]", "cancel a run after a time", acting.set_timeout, while_active=True),
    Command("/steer", "<text>", "tell the active run something", acting.steer, while_active=True),
    Command("/approve", "ask|all|none|<duration>", "what is asked for", acting.set_policy, while_active=True),
    Command("/permissions", "", "the rules that decide", looking.show_permissions),
    Command("/session", "[resume <id|last>|new]", "list, resume or start sessions", acting.session),
    Command("/resume", "[id|last]", "go on in another session", acting.resume),
    Command("/new", "", "start afresh", acting.new),
    Command("/fork", "", "go on in a copy of this session", acting.fork),
    Command("/back", "", "", acting.back),
    Command("/export", "[file]", "write every event to a file", looking.export),
    Command("/diff", "", "what changed in the workspace", looking.show_diff),
    Command("/init", "", "have AGENTS.md written", acting.init),
    Command("/doctor", "", "check this installation", looking.show_doctor),
    Command("/login", "[profile]", "use an account instead of a key", acting.login),
    Command("/help", "", "this list", show_help),
    Command("/quit", "", "leave (also /exit, /q, Ctrl-D)", acting.leave),
    Command("/exit", "", "", acting.leave),
    Command("/q", "", "", acting.leave),
)

KEYS = (
    "Enter sends (queues while a run is active) · Alt-Enter, Ctrl-J newline · Ctrl-Enter steers",
    "Esc interrupts · Esc Esc goes back to an earlier message · Shift-Tab changes approvals",
    "@file completes a path · !cmd runs a command of yours · Ctrl-G your editor · Ctrl-R history",
    "Ctrl-D leaves; a run that is active goes on without you · Ctrl-Z suspends",
)

_BY_NAME = {command.name: command for command in COMMANDS}


def offered() -> list[tuple[str, str]]:
    """Names and help, for completion."""
    return [(command.name, command.help) for command in COMMANDS if command.help]


def find_command(line: str) -> tuple[Command, str]:
    """The command of a line and what follows it; UserError where there is none."""
    name, rest = [*line.split(maxsplit=1), "", ""][:2]
    command = _BY_NAME.get(name.lower())
    if command is None:
        import difflib

        near = difflib.get_close_matches(name, [known for known, _ in offered()], 1)
        hint = f"did you mean {near[0]}?" if near else "/help lists them"
        raise UserError(f"no command {escape(name[:40])}", hint=hint)
    return command, rest


async def run_command(desk: Desk, line: str) -> None:
    command, rest = find_command(line)
    if desk.talk.active is not None and not command.while_active:
        allowed = " ".join(known.name for known in COMMANDS if known.while_active)
        raise UserError(f"{command.name} waits until the run is over", hint=f"now: {allowed}")
    await command.handler(desk, rest)
