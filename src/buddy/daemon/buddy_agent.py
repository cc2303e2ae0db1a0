"""Buddy's own agent with its session's model."""

from collections.abc import Callable

from buddy.backends.contract import Run
from buddy.backends.native.loop import Native
from buddy.backends.native.prompt import PromptSettings
from buddy.daemon.session_model import SessionModel
from buddy.tools.source import ToolSource


class BuddyAgent(Native):
    """Satisfies `AgentWithModel`."""

    def __init__(
        self,
        model: SessionModel,
        tools: ToolSource,
        has_room: Callable[[], bool],
        settings: PromptSettings,
        chosen: tuple[str | None, str | None],
    ) -> None:
        self.session_model = model
        super().__init__(model.choose, tools, has_room, settings, *chosen)

    async def execute(self, run: Run) -> None:
        while self.session_model.missing_key:
            await self.session_model.wait_for_key(run)
            await self.choose_again()
        await super().execute(run)

    async def choose_again(self, chosen: tuple[str | None, str | None] | None = None) -> None:
        """Choose the provider as it was chosen last, or by these names: what they stand for has changed."""
        before, self._provider = self._provider, self._choose(*(chosen or self.session_model.chosen))
        await before.close()

    async def renew_key(self) -> None:
        """Use the key that a client has sent since the provider was made."""
        if self.session_model.missing_key or self.session_model.has_newer_key():
            await self.choose_again()
