"""The shared pane of a managed tmux session: create it, capture it, send keys to it.

Invariants: the session name was validated; keys are tmux arguments, text is sent literally, and neither can end the
command and begin another; the pane that this process runs in is never used.
"""

import hashlib
import os
import re
import secrets

from msgspec import Struct

from buddy.errors import OutcomeUnknown, ToolError
from buddy.targets import names
from buddy.targets.contract import Capture, Keys, PaneInfo
from buddy.targets.launchers import Launcher, LocalLauncher
from buddy.targets.oneshot import ShellAnswer, ask, unreachable
from buddy.targets.scripts import script_argv, script_text

WINDOW = "buddy-shared"
SNAPSHOT = 2500
_PANE = re.compile(r"%\d{1,6}|[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9_-]{1,64}(\.\d{1,4})?)?")
_PANE_SYNTAX = "pane: give %1 or session:window.pane"
_FACTS = "#{pane_id}\t#{session_name}:#{window_name}.#{pane_index}\t#{pane_current_command}\t#{pane_title}"
_LINE = re.compile(r"-|-?\d{1,7}")
_KEY = re.compile(r"[^\x00-\x1f\x7f]{1,64}")


class PaneCommand(Struct, frozen=True):
    """A command that was typed into the pane: where its files are, and the marks around its output."""

    directory: str
    begin: bytes
    end: bytes


def default_session(root: str) -> str:
    return f"buddy-{hashlib.sha256(root.encode('utf-8', 'surrogateescape')).hexdigest()[:4]}"


class Pane:
    def __init__(self, launcher: Launcher, session: str, root: str) -> None:
        self.session = names.session(session)
        self._launcher = launcher
        self._root = root

    async def type(self, command: bytes, cwd: str, nonce: str, fence: str = "") -> PaneCommand:
        """Type a command into the pane; ToolError if it is busy, or refused by the fence."""
        begin, end = (secrets.token_hex(24).encode() for _ in range(2))
        _, directory = await self._prepare(cwd, nonce, b"\n".join((begin, end, command)), fence)
        return PaneCommand(directory, begin, end)

    async def make(self) -> None:
        """Create the pane if it is missing; ToolError if that fails."""
        await self._prepare("", "", b"")

    async def directory_of(self, nonce: str) -> str:
        _, private = await self._prepare("", "", b"")
        return f"{private}/{nonce}"

    async def find(self, asked: str | None) -> PaneInfo:
        own, _ = await self._prepare("", "", b"")
        if asked is None:
            return PaneInfo(own, is_own=True)
        words = ["tmux", "display-message", "-p", "-t", _check(asked, _PANE, _PANE_SYNTAX), "-F", _FACTS]
        said = self._output(await ask(self._launcher, words)).removesuffix("\n").split("\t", 3)
        if len(said) != 4 or not said[0]:
            raise ToolError(f"tmux has no pane {asked}; leave target out for the shared pane")
        pane_id, where, command, title = said
        if pane_id == self._own_pane():
            raise ToolError(f"{asked} is the pane that Buddy itself runs in; leave target out for the shared pane")
        return PaneInfo(pane_id, pane_id == own, where, command, title)

    async def capture(self, request: Capture) -> str:
        words = ["tmux", "capture-pane", "-p", *_flags(request)]
        target = await self._target(request.target)
        for name, line in (("-S", request.start), ("-E", request.end)):
            if line is not None:
                words += [name, _check(line, _LINE, "line: give a number, or - for the start or end of the history")]
        alternate = ["-a"] if request.include_alternate_screen else []
        answer = await ask(self._launcher, [*words, *alternate, "-t", target])
        notice = ""
        if answer.code != 0 and alternate and "no alternate screen" in answer.errors:
            answer = await ask(self._launcher, [*words, "-t", target])
            notice = "[there is no alternate screen; this is the normal one]\n"
        return notice + self._output(answer)

    async def send_keys(self, keys: Keys, fence: str = "") -> None:
        """Press keys in a pane; ToolError if that is refused, also by the fence."""
        target = await self._target(keys.target)
        if keys.literal_text:
            if "\0" in keys.literal_text:
                raise ToolError("literal_text has a NUL byte; leave it out")
            words = ["tmux", "send-keys", "-t", target, "-l", "--", argument(keys.literal_text)]
            self._output(await ask(self._launcher, _fenced(fence, words)))
        named = [_check(key, _KEY, "key: give names like C-c, Enter, Up") for key in keys.keys]
        named += ["Enter"] if keys.enter else []
        if named:
            words = ["tmux", "send-keys", "-t", target, "--", *map(argument, named)]
            self._output(await ask(self._launcher, _fenced(fence, words)))

    async def snapshot(self) -> str:
        answer = await ask(self._launcher, ["tmux", "capture-pane", "-p", "-J", "-t", self._window()])
        return answer.output.decode("utf-8", "replace").rstrip()[-SNAPSHOT:] if answer.code == 0 else ""

    async def leave(self) -> None:
        """Remove the session if it was made for us and nobody uses it."""
        await ask(self._launcher, script_argv("leave", self.session))

    def attach_hint(self) -> str:
        return self._launcher.shell_command(["tmux", "attach", "-t", self.session])

    def _own_pane(self) -> str:
        """The pane that this process runs in, if there is one."""
        return os.environ.get("TMUX_PANE", "") if isinstance(self._launcher, LocalLauncher) else ""

    def _window(self) -> str:
        return f"={self.session}:={WINDOW}"

    async def _target(self, asked: str | None) -> str:
        if asked is not None:
            return _check(asked, _PANE, _PANE_SYNTAX)
        pane, _ = await self._prepare("", "", b"")
        return pane

    def _output(self, answer: ShellAnswer) -> str:
        if answer.code != 0:
            raise ToolError(f"tmux on {self._launcher.name}: {answer.errors[-300:] or f'it gave {answer.code}'}")
        return answer.output.decode("utf-8", "replace")

    async def _prepare(self, cwd: str, nonce: str, stdin: bytes, fence: str = "") -> tuple[str, str]:
        words = script_argv(
            "prepare", self.session, self._root, cwd, nonce, self._own_pane(), script_text("pane"), fence or "-"
        )
        answer = await ask(self._launcher, words, stdin)
        said = answer.output.decode("utf-8", "replace").removesuffix("\n").split(" ", 2)
        if len(said) == 3 and said[0] == "ok":
            return said[1], said[2]
        raise self._problem(said[0], answer)

    def _problem(self, word: str, answer: ShellAnswer) -> ToolError:
        where = f"the shared pane ({self.attach_hint()})"
        match word:
            case "busy":
                return ToolError(
                    f"{where} is busy: a program is running in it. See it with capture-pane; wait, or end it with C-c."
                )
            case "nodir":
                return ToolError(f"the directory does not exist on {self._launcher.name}; use another cwd")
            case "own":
                return ToolError(f"{where} is the pane that Buddy itself runs in; use another terminal")
            case "notmux":
                return ToolError(f"tmux is not installed on {self._launcher.name}", code="SANDBOX_UNREACHABLE")
            case "fenced":
                refused = f"{self._launcher.name} refused to start it: another node has the session"
                return ToolError(refused, code="SANDBOX_UNREACHABLE")
            case "noprivate":
                return ToolError(f"no private directory for {where}", code="SANDBOX_UNREACHABLE")
            case "again":
                return OutcomeUnknown("this call was already typed into the pane")
            case _:
                return unreachable(self._launcher, answer.errors or "tmux created no pane")


def argument(text: str) -> str:
    """One argument for tmux, which takes a semicolon at the end of any of them for the end of a command."""
    return f"{text[:-1]}\\;" if text.endswith(";") else text


def _flags(request: Capture) -> list[str]:
    flags = {
        "-J": request.join_wrapped_lines,
        "-N": request.preserve_trailing_spaces,
        "-e": request.include_escape_sequences,
        "-C": request.escape_non_printable,
    }
    return [flag for flag, wanted in flags.items() if wanted]


def _check(text: str, pattern: "re.Pattern[str]", what: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ToolError(f"{text[:80]!r} is not a {what}")
    return text


def _fenced(fence: str, words: list[str]) -> list[str]:
    return script_argv("keys", fence, *words) if fence else words
