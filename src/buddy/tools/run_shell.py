"""Runs a shell command: the tool behind most of what an agent does.

Invariants: a command runs on the target of the workspace and nowhere else; a confined one has network only if its own
call asked for it and was allowed; at its time limit it is killed with everything it started, except in a shared pane,
where it continues and the result says so.
"""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from buddy.capabilities import has
from buddy.errors import ToolError
from buddy.protocol.actors import SESSION_GRANT, RuleActor, parse_actor
from buddy.protocol.codes import Source, Tier
from buddy.protocol.durations import parse_duration
from buddy.protocol.intents import Exec
from buddy.protocol.typed_text import InputLine, after_command
from buddy.steps import Steps, at_once, take_turns
from buddy.targets.contract import Finished, Offline, Terminal, Unconnected, without_terminal
from buddy.tools.contract import SHARED, Call, Output, Place
from buddy.tools.git_environment import git_environment, runs_git
from buddy.tools.output_buffer import OutputBuffer, Stream
from buddy.tools.scripts import scripts_of
from buddy.tools.shell.unwrap import read_ahead
from buddy.tools.texts import text_of
from buddy.tools.written_places import strays

SHOWN_AFTER_TIMEOUT = 8 * 1024
_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
# What programs print if the sandbox stopped them, and what the model can do about it.
_NO_NETWORK = (
    *("network is unreachable", "could not resolve", "name resolution", "name or service not known"),
    *("connection refused", "failed to connect", "couldn't connect", "no route to host", "enotfound", "econnrefused"),
)
_NO_ACCESS = (
    *("read-only file system", "permission denied", "operation not permitted", "no such device"),
    *("erofs", "eacces", "eperm", "device or resource busy"),
)
_NETWORK_ADVICE = (
    "Commands here have no network. If it failed because of that, request it again with network: true; the user is "
    "asked."
)
_OUTSIDE_ADVICE = (
    "Commands here run in a sandbox and write only in the workspace. If it failed because of that and cannot be done "
    "another way, request it again with outside_sandbox: true; the user is asked."
)
ADVICE = ((_NO_NETWORK, _NETWORK_ADVICE), (_NO_ACCESS, _OUTSIDE_ADVICE))


class RunShellArgs(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="Command line for bash.", min_length=1)]
    wait: Annotated[
        bool | int | str | None,
        Meta(description='true (default): until it finishes. "500ms", "30s", "10m", "1h" or seconds: a limit.'),
    ] = None
    cwd: Annotated[str | None, Meta(description="Directory to run in, within the workspace (default: its root).")] = (
        None
    )
    network: Annotated[bool, Meta(description="In a confined session: request network access for this command.")] = (
        False
    )
    outside_sandbox: Annotated[
        bool,
        Meta(description="In a confined session: request to run this command outside the sandbox, if it failed there."),
    ] = False


class RunShell:
    name: str = "run_shell"
    tier: Tier = "privileged"
    source: Source = "sandbox"
    args: type[Struct] = RunShellArgs
    timeout: float | None = None

    def __init__(self) -> None:
        self.description: str = text_of("run_shell")

    async def intent(self, args: RunShellArgs, place: Place) -> Exec:
        cwd = await place.target.locate(args.cwd, root=place.root) if args.cwd else place.root
        await read_ahead(args.command)
        scripts = await scripts_of(args.command, cwd, place)
        outside = args.outside_sandbox and place.sandbox == "confined"
        network = None if outside else await _network(args, place)
        how = " outside the sandbox" if outside else " with network" if network else ""
        return Exec(
            title=f"run a shell command{how}",
            summary=args.command,
            target=place.target.name,
            sandbox="host" if outside else place.sandbox,
            outside=outside,
            command=args.command,
            cwd=cwd,
            wait=args.wait,
            scripts=scripts.digests,
            scripts_complete=scripts.complete,
            script_texts=scripts.texts,
            network=network,
            strays=await strays(args.command, cwd, place),
        )

    async def run(self, args: RunShellArgs, call: Call) -> Output:
        unwatched = args.wait is not False or not has(call.place.target, Terminal)
        timeout = _seconds(args.wait) if unwatched else 0.0
        cwd = await _directory(args.cwd, call.place)
        output = OutputBuffer()

        async def on_output(stream: Stream, chunk: bytes) -> None:
            output.add(stream, chunk)
            await call.on_output(stream, chunk)

        target = call.place.target
        if args.outside_sandbox and has(target, Offline):
            target = target.outside()
        elif args.network and has(target, Offline):
            target = target.with_network()
        env = None
        if _is_by_rule(call.by) and runs_git(args.command):
            target = without_terminal(target)  # a shared pane has its own environment
            env = await git_environment(args.command, target, cwd, call.nonce)
            timeout = None if args.wait is False else timeout
        if has(target, Terminal):
            lines = call.place.input_lines
            lines[SHARED] = after_command(lines.get(SHARED, InputLine()))
        finished = await target.run(
            args.command, cwd=cwd, nonce=call.nonce, on_output=on_output, timeout=timeout, env=env
        )
        if finished.still_running:
            return _still_running(args.wait, output)
        if finished.timed_out:
            raise _timed_out(args.wait, output)
        result = await take_turns(command_result(finished, output))
        is_inside = has(target, Offline) and call.place.sandbox == "confined"
        return _with_advice(result) if is_inside and finished.exit_code != 0 else result


def _with_advice(result: Output) -> Output:
    """A command that seems to have failed because of the sandbox, with the ways out."""
    shown = result.text[-SHOWN_AFTER_TIMEOUT:].lower()
    advice = next((advice for signs, advice in ADVICE if any(sign in shown for sign in signs)), None)
    return result if advice is None else replace(result, text=f"{result.text}\n\n[{advice}]")


def _is_by_rule(by: str) -> bool:
    """Whether a rule allowed it, and nobody was asked about this very command."""
    actor = parse_actor(by)
    return isinstance(actor, RuleActor) and actor != SESSION_GRANT and actor.id != "shell_confirm"


async def _network(args: RunShellArgs, place: Place) -> bool | None:
    """Whether the command would have network; None if nothing here decides that."""
    if place.sandbox == "confined":
        return args.network
    target = without_terminal(place.target)
    return False if has(target, Unconnected) and await target.is_offline() else None


def command_result(finished: Finished, output: OutputBuffer) -> Steps[Output]:
    """The result of a command that has ended."""
    text = yield from _sections(output, f"exit code: {finished.exit_code}\n")
    failed = finished.exit_code != 0
    error_type = "EXEC_NON_ZERO_EXIT" if failed else "UNKNOWN"
    return Output(text, exit_code=finished.exit_code, is_error=failed, error_type=error_type)


async def _directory(cwd: str | None, place: Place) -> str:
    if cwd:
        info = await place.target.stat(cwd, root=place.root)
        if info is None or not info.is_dir:
            raise ToolError(f"cwd {cwd!r} is not a directory in the workspace; give another", code="FILE_NOT_FOUND")
    return await place.target.locate(cwd or ".", root=place.root)


def _seconds(wait: bool | int | str | None) -> float | None:
    if wait is None or wait is True:
        return None
    if wait is False:
        raise ToolError("wait: false needs a tmux-backed target, and this one is not; leave wait out, or give a limit")
    seconds = parse_duration(str(wait))
    if seconds is None:
        raise ToolError(f"wait: {str(wait)[:40]!r} is not a duration; give true, seconds, or 500ms, 30s, 10m, 1h, 2d")
    return seconds


def _sections(output: OutputBuffer, first: str = "") -> Steps[str]:
    """What was written to each stream, without newlines at the end; copied once, as it may be long."""
    pieces = [first]
    for stream in _STREAMS:
        shown = _without_newline((yield from output.pieces(stream)))
        if shown:
            pieces += ("\n" if pieces[1:] else "", f"{stream}:\n", *shown)
    while pieces:
        last = pieces.pop().rstrip("\n")
        if last:
            return "".join([*pieces, last])
    return ""


def _without_newline(pieces: list[str]) -> list[str]:
    *before, last = pieces or [""]
    last = last.removesuffix("\n")
    return [*before, last] if last or before else []


def _still_running(wait: bool | int | str | None, output: OutputBuffer) -> Output:
    limit = f"{wait}s" if str(wait).isdigit() else str(wait)
    how = "was started" if wait is False else f"did not end within {limit}"
    text = f"the command {how} and is still running in the shared pane; see it with capture-pane (delay it to poll)"
    shown = at_once(_sections(output))[-SHOWN_AFTER_TIMEOUT:]
    return Output(text + (f"\nits output so far:\n{shown}" if shown else ""))


def _timed_out(wait: bool | int | str | None, output: OutputBuffer) -> ToolError:
    limit = f"{wait}s" if str(wait).isdigit() else str(wait)
    message = f"the command did not end within {limit}, so it and every process it started were killed"
    shown = at_once(_sections(output))
    if len(shown) > SHOWN_AFTER_TIMEOUT:
        shown = f"[...]\n{shown[-SHOWN_AFTER_TIMEOUT:]}"
    advice = "give a longer wait, or run less at once"
    return ToolError(
        f"{message}; {advice}" + (f"\nits output until then:\n{shown}" if shown else ""), code="EXEC_TIMEOUT"
    )
