"""The hooks of one session: the user's own, and those of its folder while that is trusted.

Invariants: hooks of a folder run only as they were trusted; if they changed since, those that guard something fail
instead of vanishing. Several run at the same time, and what they answered is in the order of their definition.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from buddy.approvals.digest import nonce_of
from buddy.approvals.hook_files import HOOK_FILES, hooks_digest
from buddy.approvals.trust import Trust
from buddy.backends.hooks import FAIL_CLOSED, HookCall
from buddy.file_cache import Dependencies, FileCache
from buddy.hooks.answers import Answer, failed, read_answer
from buddy.hooks.definitions import Hook, read_hooks
from buddy.hooks.names import ShownCall, show, take_back
from buddy.hooks.process import NoAnswer, run_script
from buddy.protocol.hook_events import HookEvent, HookFinished

NO_PROJECT_ALLOW = "a project's hook cannot allow"
NOT_ALLOWED = "its allow does not count here"
FIXED_INPUT = "it changed the input, which this call does not allow"
CHANGES_AGAIN = "it would change the input again, which another hook has changed"
IN_BACKGROUND = "it runs in the background"
MAX_BACKGROUND = 8
TOO_MANY = f"not run: {MAX_BACKGROUND} hooks of this session are running in the background"

Stamp = tuple[object, ...]


class SessionHooks:
    """Satisfies `Hooks`. `root` is None for a workspace that is not on this machine: then only the user's apply."""

    def __init__(self, session_id: str, root: str | None, user_file: Path, trust: Trust) -> None:
        self._session_id = session_id
        self._root = root
        self._user_file = user_file
        self._trust = trust
        self._user: tuple[Stamp, tuple[Hook, ...]] = (), ()
        self._project: tuple[Stamp, tuple[Hook, ...]] = (), ()
        self._trusted: tuple[Hook, ...] = ()
        self._found = FileCache(lambda looked: _find(Path(root), looked) if root is not None else _Found())
        self._count = 0
        self._background: set[asyncio.Task[HookFinished]] = set()

    def watches(self, event: HookEvent) -> bool:
        return any(hook.event == event for hook in self._defined())

    async def wait_ready(self) -> None:
        """Read what has changed in a thread, because it can be many files."""
        if self._root is not None and not self._found.is_current():
            found = await asyncio.to_thread(self._found.get)
            if found.hooks:
                await asyncio.to_thread(self._trust.answer, self._root)

    async def close(self) -> None:
        for task in list(self._background):
            task.cancel()
        if self._background:
            await asyncio.wait(list(self._background))

    async def run(self, call: HookCall) -> tuple[HookFinished, ...]:
        shown = show(call, self._root or "/")
        chosen = [hook for hook in self._defined() if hook.event == call.event and hook.matches(shown.names)]
        if call.again:  # the one that changed the input has said what it wants
            chosen = [hook for number, hook in enumerate(chosen) if (number, hook.name) != call.changed_by]
        if not chosen:
            return ()
        self._count += 1
        loop = asyncio.get_running_loop()
        tasks: list[asyncio.Task[HookFinished]] = []
        chosen = self._within_limit(chosen)
        for number, hook in enumerate(chosen):
            task = loop.create_task(self._run_one(hook, call, shown, number))
            if not hook.waits:
                self._background.add(task)
                task.add_done_callback(self._background.discard)
            tasks.append(task)
        waited = [task for task, hook in zip(tasks, chosen, strict=True) if hook.waits]
        try:
            if waited:
                await asyncio.wait(waited)
        finally:
            await _stop(waited)
        return tuple(
            task.result() if hook.waits else _finished(hook, call, Answer(reason=IN_BACKGROUND), 0)
            for task, hook in zip(tasks, chosen, strict=True)
        )

    def _within_limit(self, hooks: list[Hook]) -> list[Hook]:
        """Those in the background, which nobody waits for, are limited in number: one too many fails instead."""
        left = MAX_BACKGROUND - len(self._background)
        found: list[Hook] = []
        for hook in hooks:
            left -= not hook.waits
            is_one_too_many = not hook.waits and left < 0
            found.append(replace(hook, problem=TOO_MANY, waits=True) if is_one_too_many else hook)
        return found

    async def _run_one(self, hook: Hook, call: HookCall, shown: ShownCall, number: int) -> HookFinished:
        loop = asyncio.get_running_loop()
        started = loop.time()
        answer = failed(hook.problem) if hook.problem else await self._ask(hook, call, shown, number)
        answer = _limit(answer, hook, call)
        changed = None if answer.input is None else take_back(call, shown, answer.input)
        return _finished(hook, call, replace(answer, input=changed), round((loop.time() - started) * 1000))

    async def _ask(self, hook: Hook, call: HookCall, shown: ShownCall, number: int) -> Answer:
        cwd = self._folder()
        about = call.call_id or f"{self._count}"
        folder = self._root or cwd
        variables = {"CLAUDE_PROJECT_DIR": folder, "BUDDY_PROJECT_DIR": folder, "BUDDY_SESSION_ID": self._session_id}
        try:
            output = await run_script(
                hook.command,
                cwd=cwd,
                stdin=msgspec.json.encode(self._input(call, shown, cwd)),
                seconds=hook.seconds,
                nonce=nonce_of(self._session_id, f"hook/{call.event}/{about}/{number}"),
                variables=variables,
            )
        except NoAnswer as error:
            return failed(str(error))
        return read_answer(call.event, output)

    def _folder(self) -> str:
        """Where scripts start: the workspace, if it is on this machine."""
        is_here = self._root is not None and Path(self._root).is_dir()
        return self._root if self._root is not None and is_here else str(Path.home())

    def _input(self, call: HookCall, shown: ShownCall, cwd: str) -> dict[str, Any]:
        common = {
            "session_id": self._session_id,
            "transcript_path": "",
            "cwd": self._root or cwd,
            "hook_event_name": call.event,
        }
        about = {"tool_name": shown.name, "tool_input": shown.input} if call.tool else {}
        if call.call_id is not None:
            about["tool_use_id"] = call.call_id
        return {**common, **call.fields, **about}

    # --- what is defined -------------------------------------------------------------------------------------------

    def _defined(self) -> tuple[Hook, ...]:
        """The folder's first: of two that change the same input, the user's wins."""
        return (*self._project_hooks(), *self._user_hooks())

    def _user_hooks(self) -> tuple[Hook, ...]:
        stamp = (_stamp(self._user_file),)
        if stamp != self._user[0]:
            found = read_hooks(str(self._user_file), "user", self._user_file.name)
            self._user = stamp, found.hooks if found else ()
        return self._user[1]

    def _project_hooks(self) -> tuple[Hook, ...]:
        if self._root is None:
            return ()
        found = self._found.get()
        stamp = (self._trust.stamp(self._root), found.digest)
        if self._project[0] != stamp:
            self._project = stamp, self._judge(self._root, found)
        return self._project[1]

    def _judge(self, root: str, found: "_Found") -> tuple[Hook, ...]:
        answer = self._trust.answer(root) if found.hooks or self._trusted else None
        # Still the same after that: what runs is what was judged.
        if answer is True and self._found.get() == found:
            self._trusted = found.hooks
            return found.hooks
        if answer is False:
            self._trusted = ()
        why = f"the folder's hooks changed since they were trusted; look at them, then run: buddy trust {root}"
        return tuple(replace(hook, problem=why) for hook in self._trusted if hook.event in FAIL_CLOSED)


class _Found(Struct, frozen=True):
    """What a folder defines, and a digest of all that it consists of."""

    hooks: tuple[Hook, ...] = ()
    digest: str = ""


def _find(root: Path, looked: Dependencies) -> _Found:
    files = [read_hooks(str(root / name), "project", name) for name in HOOK_FILES]
    return _Found(tuple(hook for file in files if file for hook in file.hooks), hooks_digest(root, looked))


async def _stop(tasks: Sequence[asyncio.Task[HookFinished]]) -> None:
    """End those that are still running: nobody waits for them any more."""
    running = [task for task in tasks if not task.done()]
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


def _limit(answer: Answer, hook: Hook, call: HookCall) -> Answer:
    """What counts of an answer, given who wrote the hook and what is asked about."""
    if answer.verdict == "allow" and (hook.source == "project" or not call.may_allow):
        why = NO_PROJECT_ALLOW if hook.source == "project" else NOT_ALLOWED
        return replace(answer, verdict="none", reason=f"{answer.reason} ({why})" if answer.reason else why)
    if answer.input is not None and call.again:
        return replace(answer, verdict="ask", input=None, reason=CHANGES_AGAIN)
    if answer.input is not None and not call.may_change:
        return replace(answer, verdict="deny", input=None, reason=FIXED_INPUT)
    return answer


def _finished(hook: Hook, call: HookCall, answer: Answer, duration_ms: int) -> HookFinished:
    return HookFinished(
        hook=hook.name,
        event=call.event,
        verdict=answer.verdict,
        duration_ms=duration_ms,
        call_id=call.call_id,
        reason=answer.reason or None,
        owner=hook.source,
        input=answer.input,
        context=answer.context or None,
        message=answer.message or None,
        message_id=call.message_id,
        stop=answer.stop,
        again=call.again,
    )


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
