"""Has decided what another agent asks, and tells it.

What always holds: the decision is bound to everything that was shown, the contents of scripts included, and what
changed meanwhile is asked again; a call is claimed before the agent hears yes; each question is answered at most once.
"""

import asyncio
from collections.abc import Callable
from posixpath import join
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from buddy.approvals.digest import digest_of
from buddy.approvals.questions import Question, Ruling
from buddy.backends.contract import Run, RunDenied, RunEnded
from buddy.backends.external.contract import Answer, Permission
from buddy.errors import ToolError
from buddy.protocol.codes import Tier
from buddy.tools.contract import Intent, Place
from buddy.tools.scripts import scripts_of
from buddy.tools.writing import is_protected

# Our tools' names for what it asks to do, so that one rule holds for all backends.
NAMES = {"exec": "run_shell", "write": "write_file", "fetch": "fetch_url"}
TITLES = {"exec": "run a shell command", "write": "change a file", "fetch": "fetch from the network"}


class Clerk:
    def __init__(self, run: Run, agent: str, has_room: Callable[[], bool]) -> None:
        self._run = run
        self._agent = agent
        self._has_room = has_room
        self._claimed: set[str] = set()
        self._asking: set[asyncio.Task[None]] = set()

    def take(self, asked: Permission, call_id: str, asking: asyncio.TaskGroup) -> None:
        """Have it decided beside everything else that goes on."""
        task = asking.create_task(self._decide(asked, call_id))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def stop(self) -> None:
        """It no longer waits for what it asked."""
        for task in list(self._asking):
            task.cancel()

    async def _decide(self, asked: Permission, call_id: str) -> None:
        if not self._has_room():
            raise RunEnded(
                "storage_full", "less than 200 MiB of disk are free: nothing is done that cannot be recorded"
            )
        try:
            ruling = await self._ruling(asked, call_id)
        except RunDenied:
            await asked.reply(Answer(approved=False))
            raise
        comment = "" if ruling.approved else ruling.comment or f"denied by {ruling.by}"
        await asked.reply(Answer(ruling.approved, comment))

    async def _ruling(self, asked: Permission, call_id: str) -> Ruling:
        """Of several files, each has to be allowed; the first that is not decides."""
        tier: Tier = "side-effecting" if asked.kind in ("write", "fetch") else "privileged"
        ruling, digest = await self._ask(asked, call_id, tier)
        for path in asked.more_paths:
            if not ruling.approved:
                break
            ruling, digest = await self._ask(replace(asked, path=path), call_id, tier)
        if ruling.approved and call_id not in self._claimed:  # some ask twice about one call, which still starts once
            self._claimed.add(call_id)
            await self._run.claim(call_id, tier, digest)
        return ruling

    async def _ask(self, asked: Permission, call_id: str, tier: Tier) -> tuple[Ruling, str]:
        question = await self._question(asked, call_id, tier)
        while True:
            ruling = await self._run.ask(question)
            again = await self._question(asked, call_id, tier) if ruling.approved else question
            if again.digest == question.digest:
                return ruling, question.digest
            question = again

    async def _question(self, asked: Permission, call_id: str, tier: Tier) -> Question:
        intent = await self._intent(asked)
        digest = digest_of(asked.name, msgspec.json.encode(asked.args).decode(), intent, self._run.place)
        return Question(call_id, tier, intent, digest, NAMES.get(asked.kind, asked.name))

    async def _intent(self, asked: Permission) -> Intent:
        place = self._run.place
        details: dict[str, Any] = {
            **asked.details,
            "agent": self._agent,
            "agentTool": asked.name,
            "args": asked.args,
            "cwd": place.root,
            "target": place.target.name,
            "sandbox": place.sandbox,
        }
        match asked.kind:
            case "exec":
                summary = details["command"] = asked.command
                scripts = await scripts_of(asked.command, place.root, place)
                details |= {"scripts": scripts.digests, "scriptsComplete": scripts.complete}
                details |= {"scriptTexts": scripts.texts} if scripts.texts else {}
            case "write":
                summary = details["path"] = path = await _where(asked.path, place)
                details["protected"] = is_protected(path)
            case "fetch":
                summary = details["url"] = asked.url
                details["host"] = urlsplit(asked.url).hostname or ""
            case _:
                summary = asked.name
        return Intent(asked.kind, TITLES.get(asked.kind, f"use {asked.name}"), summary, details)


async def _where(path: str, place: Place) -> str:
    """Where a path really leads, inside the workspace or not: a rule about paths must not be led astray by a link."""
    whole = join(place.root, path)
    try:
        return await place.target.locate(whole, root="/")
    except ToolError:
        return whole
