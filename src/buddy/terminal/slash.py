"""The slash commands: one table of names, arguments, handlers, and why some have to wait while a run is active.

Invariants: whatever only reads, steers or leaves works during a run; an unknown command is never sent to the model.
"""

import difflib
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from buddy.errors import UserError
from buddy.protocol.command_requests import CommandInfo
from buddy.terminal import change_commands as change
from buddy.terminal import file_commands as files
from buddy.terminal import question_commands as question
from buddy.terminal import show_commands as show
from buddy.terminal.command_ui import CommandUI
from buddy.terminal.escape import escape, one_line

Handler = Callable[[CommandUI, str], Awaitable[None]]


class Command(Struct, frozen=True):
    """One command; without `help` it is hidden from lists. `waits_because`: why it does not work during a run."""

    name: str
    arguments: str
    help: str
    handler: Handler
    waits_because: str = ""

    @property
    def while_active(self) -> bool:
        return not self.waits_because


async def show_keys(ui: CommandUI) -> None:
    ui.show("\n".join([*(f"  {ui.style.dim(line)}" for line in KEYS), f"  {ui.style.dim('/help: all commands')}"]))


async def show_help(ui: CommandUI, _: str) -> None:
    style = ui.style
    listed = [(f"{command.name} {command.arguments}", command.help) for command in COMMANDS if command.help]
    width = max(len(usage) for usage, _ in listed)
    rows = [f"  {style.cyan(usage.ljust(width))}  {text}" for usage, text in listed]
    prepared = await ui.session.list_commands()
    if prepared:
        rows += ["", *(f"  {style.cyan(f'/{one.name}'.ljust(width))}  {_about(one)}" for one in prepared)]
    ui.show("\n".join([*rows, "", *(f"  {style.dim(line)}" for line in KEYS)]))


def _about(command: CommandInfo) -> str:
    hint = f" {one_line(command.argument_hint, 60)}" if command.argument_hint else ""
    return f"{one_line(command.description, 160)} ({command.owner} {command.kind}){hint}".strip()


async def use_skill(ui: CommandUI, rest: str) -> None:
    """Only reached with a name that no skill has: the others are messages."""
    names = [one.name for one in ui.session.prepared if one.kind == "skill"]
    hint = f"available: {', '.join(map(escape, names))}" if names else "a skill is a folder with a SKILL.md"
    raise UserError(f"unknown skill {escape(rest[:40])!r}" if rest else "which skill?", hint=hint)


SKILL = "/skill"
COMMANDS = (
    Command("/status", "", "model, session, workspace, approvals, usage", show.show_status),
    Command(
        "/model",
        "[name|index]",
        "switch the model, or choose from a list",
        change.switch_model,
        "a run keeps its model",
    ),
    Command("/context", "", "how full the context window is", show.show_context),
    Command(
        "/compact",
        "[undo]",
        "replace old messages with a summary",
        change.compact,
        "it would replace what the run reads",
    ),
    Command("/cost", "", "cost and tokens of this session", show.show_cost),
    Command("/ps", "", "list active runs", show.show_ps),
    Command("/kill", "<id>", "cancel a run", change.kill),
    Command("/timeout", "<duration> [id]", "cancel a run after a time", change.set_timeout),
    Command("/steer", "<text>", "send a message to the active run", change.steer),
    Command(
        "/send-as-is", "[text]", "send the last message, or this text, without redacting guesses", change.send_as_is
    ),
    Command("/answer", "<name=value …>", "answer a question of a server", question.answer),
    Command("/decline", "", "decline a question of a server", question.decline),
    Command("/approve", "ask|auto|all|none|<duration>", "change the approval policy", change.set_policy),
    Command("/plan", "[on|off]", "switch plan mode: only read, change nothing", change.set_plan),
    Command("/permissions", "[revoke <id>]", "list rules and grants, or end one", show.manage_permissions),
    Command("/session", "[resume <id|last>|new]", "list, resume or start sessions", change.manage_sessions),
    Command("/resume", "[id|last]", "switch to another session", change.resume),
    Command("/new", "", "start a new session", change.start_new),
    Command("/clear", "", "start a new session on a clear screen", change.clear),
    Command("/rename", "<title>", "give this session a title", change.rename),
    Command("/fork", "", "continue in a copy of this session", change.fork),
    Command("/back", "", "", files.rewind, "the run is still adding to the session"),
    Command("/changes", "[all] [diff]", "files that this session changed", files.show_changes),
    Command(
        "/undo",
        "[all|run ID|call ID|to SEQ|force PATH]",
        "bring files back to before the last run",
        files.undo,
        "the run is still changing files",
    ),
    Command("/redo", "", "take the last undo back", files.redo, "the run is still changing files"),
    Command("/copy", "", "copy the last answer to the clipboard", show.copy_answer),
    Command("/show", "[number]", "the whole output of a tool call, the last one first (also Ctrl-O)", show.show_output),
    Command("/export", "[file]", "write every event to a file", show.export),
    Command("/diff", "", "changes in the workspace, as git sees them", show.show_diff),
    Command("/init", "", "generate AGENTS.md", change.write_agents_file, "it starts a run of its own"),
    Command("/skill", "<name> [task]", "use a skill", use_skill),
    Command("/doctor", "", "check this installation", show.show_doctor),
    Command(
        "/login", "[profile]", "log in with an account instead of a key", change.login, "it needs the whole terminal"
    ),
    Command("/help", "", "show this list", show_help),
    Command("/quit", "", "quit (also /exit, /q, Ctrl-D)", change.quit_terminal),
    Command("/exit", "", "", change.quit_terminal),
    Command("/q", "", "", change.quit_terminal),
)

KEYS = (
    "Enter: send, or queue during a run · Alt-Enter, Ctrl-J: newline · Ctrl-Enter: steer",
    "Esc: interrupt · Esc Esc: go back to an earlier message · Shift-Tab: plan mode",
    "@file: complete a path · !cmd: run a shell command · Ctrl-G: editor · Ctrl-R: history",
    "Ctrl-O: the whole output of the last tool call · ? on an empty line: these keys",
    "Ctrl-D: quit (an active run continues in the background) · Ctrl-Z: suspend",
)

_BY_NAME = {command.name: command for command in COMMANDS}


def listed_commands() -> list[tuple[str, str]]:
    """Names and help, for completion."""
    return [(command.name, command.help) for command in COMMANDS if command.help]


def is_command(line: str) -> bool:
    """Whether a line is a command: `/tmp/x` is a path, not one."""
    if line.startswith("/mcp__"):
        return False  # a prompt of an MCP server, which the daemon fills in
    return line.startswith("/") and "/" not in line.split(maxsplit=1)[0][1:]


async def is_prepared(ui: CommandUI, line: str) -> bool:
    """Whether a line names a command or a skill from a file, and so is a message; the built-in ones come first."""
    name = line.split(maxsplit=1)[0]
    if name.lower() in _BY_NAME and name != SKILL:
        return False
    await ui.session.list_commands()
    return names_prepared(ui.session.prepared, line)


def names_prepared(prepared: Sequence[CommandInfo], line: str) -> bool:
    words = [*line.split(maxsplit=2), "", ""]
    if words[0] == SKILL:
        return any(one.name == words[1] and one.kind == "skill" for one in prepared)
    return words[0].lower() not in _BY_NAME and any(f"/{one.name}" == words[0] for one in prepared)


def find_command(line: str) -> tuple[Command, str]:
    """The command of a line and what follows it; raises UserError if there is no such command."""
    name, rest = [*line.split(maxsplit=1), "", ""][:2]
    command = _BY_NAME.get(name.lower())
    if command is None:
        near = difflib.get_close_matches(name, [known for known, _ in listed_commands()], 1)
        hint = f"did you mean {near[0]}?" if near else "/help lists all commands"
        raise UserError(f"unknown command {escape(name[:40])}", hint=hint)
    return command, rest


async def run_command(ui: CommandUI, line: str) -> None:
    command, rest = find_command(line)
    if ui.session.active is not None and not command.while_active:
        hint = f"{command.waits_because}: try again after it, or stop it with Esc"
        raise UserError(f"{command.name} isn't available while a run is active", hint=hint)
    await command.handler(ui, rest)
