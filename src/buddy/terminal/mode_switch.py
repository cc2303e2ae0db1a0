"""Shift-Tab: between the session's default policy and plan mode.

Invariants: each press counts, however fast they come: it starts from what the press before it asked for. `all`, `none`
and a window are left by it, and reached only by command.
"""

import asyncio

from buddy.protocol.requests import SetApprovalPolicy
from buddy.terminal.current_session import CurrentSession


class ModeSwitch:
    def __init__(self, session: CurrentSession) -> None:
        self._session = session
        self._sending = asyncio.Lock()
        self._unanswered = 0
        self._wants_plan = False

    def press(self) -> bool:
        """Note a press; returns whether plan mode is wanted now."""
        facts = self._session.facts
        if self._unanswered:
            self._wants_plan = not self._wants_plan
        else:
            self._wants_plan = not facts.plan and facts.policy == facts.default_policy
        self._unanswered += 1
        return self._wants_plan

    async def send(self, *, plan: bool) -> None:
        """Ask for what a press wanted, after what the presses before it wanted."""
        try:
            async with self._sending:
                await self._session.set_policy(SetApprovalPolicy(self._session.facts.default_policy, plan=plan))
        finally:
            self._unanswered -= 1
