"""The agents of this daemon: one per runtime and target, shared by all sessions there.

Invariants: an agent is started once, however many sessions request it at the same time; one that no longer responds
is replaced at the next request; `close` ends them all.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from buddy.backends.external.contract import Agent
from buddy.errors import BuddyError
from buddy.targets.contract import Target

log = logging.getLogger("buddy.backends")


class AgentPool:
    def __init__(self, make: Callable[[str], Agent]) -> None:
        self._make = make
        self._agents: dict[tuple[str, str], Agent] = {}
        self._locks: dict[tuple[str, str], asyncio.Lock] = {}

    async def start_agent(self, name: str, target: Target, project: str) -> Agent:
        key = name, target.name
        async with self._locks.setdefault(key, asyncio.Lock()):
            known = self._agents.get(key)
            if known is not None:
                try:
                    await known.ping()
                except BuddyError as error:
                    log.warning("%s on %s does not respond and is replaced: %s", name, target.name, error)
                    del self._agents[key]
                    await known.close()
                else:
                    return known
            agent = self._make(name)
            await agent.start(target, project)
            self._agents[key] = agent
            return agent

    async def close(self) -> None:
        agents, self._agents = list(self._agents.values()), {}
        for agent in agents:
            with suppress(BuddyError):
                await agent.close()
