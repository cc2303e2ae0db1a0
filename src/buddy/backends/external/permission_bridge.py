"""Answers the permission requests of another agent with Buddy's own decisions.

Invariants: a decision is bound to everything that was shown, the contents of scripts included, and what changed
meanwhile is asked again; a call is claimed before the agent hears yes; each request is answered at most once.
"""

import asyncio
from collections.abc import Callable
from posixpath import join
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from buddy.approvals.authorize import ask_until_current, check_disk_space, claim
from buddy.approvals.digest import digest_of
from buddy.approvals.questions import Question, Ruling
from buddy.backends.contract import Run
from buddy.backends.external.contract import Permission, PermissionAnswer
from buddy.errors import RunDenied, ToolError
from buddy.long_json import encode
from buddy.protocol.codes import Tier
from buddy.protocol.intents import AgentTool, Exec, Fetch, Intent, Other, Write
from buddy.steps import take_turns
from buddy.tools.contract import Place
from buddy.tools.scripts import scripts_of
from buddy.tools.writing import makes_programs_run
from buddy.tools.written_places import strays

# The names of our own tools for what the agent wants to do, so that one rule covers all backends.
NAMES = {"exec": "run_shell", "write": "write_file", "fetch": "fetch_url"}


class _Prepared(Struct, frozen=True):
    question: Question


class PermissionBridge:
    def __init__(self, run: Run, agent: str, has_room: Callable[[], bool]) -> None:
        self._run = run
        self._agent = agent
        self._has_room = has_room
        self._claimed: set[str] = set()
        self._asking: set[asyncio.Task[None]] = set()

    def take(self, asked: Permission, call_id: str, asking: asyncio.TaskGroup) -> None:
        """Have it decided while the agent continues to report."""
        task = asking.create_task(self._decide(asked, call_id))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def stop(self) -> None:
        """The agent no longer waits for answers."""
        for task in list(self._asking):
            task.cancel()

    async def _decide(self, asked: Permission, call_id: str) -> None:
        check_disk_space(_tier(asked), self._has_room)
        try:
            ruling = await self._ruling(asked, call_id)
        except RunDenied:
            await asked.reply(PermissionAnswer(approved=False))
            raise
        comment = "" if ruling.approved else ruling.comment
        await asked.reply(PermissionAnswer(ruling.approved, comment, ruling.by))

    async def _ruling(self, asked: Permission, call_id: str) -> Ruling:
        """Of several files, each has to be allowed; the first that is not decides."""
        ruling, prepared = await self._ask(asked, call_id)
        for path in asked.more_paths:
            if not ruling.approved:
                break
            ruling, prepared = await self._ask(replace(asked, path=path), call_id)
        if ruling.approved and call_id not in self._claimed:  # some agents ask twice about one call
            self._claimed.add(call_id)
            await self._claim(prepared.question)
        return ruling

    async def _ask(self, asked: Permission, call_id: str) -> tuple[Ruling, _Prepared]:
        async def prepare() -> _Prepared:
            return await self._prepare(asked, call_id)

        return await ask_until_current(self._run, await prepare(), prepare)

    async def _claim(self, question: Question) -> None:
        await claim(self._run, question)

    async def _prepare(self, asked: Permission, call_id: str) -> _Prepared:
        intent = await self._intent(asked)
        arguments = (await take_turns(encode(asked.args))).decode()
        digest = await take_turns(digest_of(asked.name, arguments, intent, self._run.place))
        return _Prepared(Question(call_id, _tier(asked), intent, digest, NAMES.get(asked.kind, asked.name)))

    async def _intent(self, asked: Permission) -> Intent:
        place = self._run.place
        tool = AgentTool(self._agent, asked.name, asked.args, place.root, asked.details)
        target, sandbox = place.target.name, place.sandbox
        match asked.kind:
            case "exec":
                scripts = await scripts_of(asked.command, place.root, place)
                return Exec(
                    title="run a shell command",
                    summary=asked.command,
                    target=target,
                    sandbox=sandbox,
                    agent=tool,
                    command=asked.command,
                    cwd=place.root,
                    scripts=scripts.digests,
                    scripts_complete=scripts.complete,
                    script_texts=scripts.texts,
                    strays=await strays(asked.command, place.root, place),
                )
            case "write":
                path = await _canonical(asked.path, place)
                return Write(
                    title="change a file",
                    summary=path,
                    target=target,
                    sandbox=sandbox,
                    agent=tool,
                    path=path,
                    protected=await makes_programs_run(path, place),
                )
            case "fetch":
                return Fetch(
                    title="fetch from the network",
                    summary=asked.url,
                    target=target,
                    sandbox=sandbox,
                    agent=tool,
                    host=urlsplit(asked.url).hostname or "",
                    url=asked.url,
                )
            case "keys" | "tool":
                return Other(
                    title=f"use {asked.name}",
                    summary=asked.name,
                    target=target,
                    sandbox=sandbox,
                    agent=tool,
                    kind=asked.kind,
                    path=path if isinstance(path := asked.details.get("path"), str) else None,
                )


def _tier(asked: Permission) -> Tier:
    return "side-effecting" if asked.kind in ("write", "fetch") else "privileged"


async def _canonical(path: str, place: Place) -> str:
    """Where a path really leads, inside the workspace or not: links must not lead around a rule about paths."""
    full = join(place.root, path)
    try:
        return await place.target.locate(full, root="/")
    except ToolError:
        return full
