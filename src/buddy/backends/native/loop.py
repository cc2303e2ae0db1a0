"""The turn loop: ask the model, do what it asks, until it answers.

Invariants: the loop decides by `run.state` alone, so an interrupted run continues from where it stopped; it does no
I/O of its own (provider, tools and log are passed in).
"""

import asyncio
from collections.abc import Callable

from buddy.backends.contract import Compaction, ModelName, ReadPast, Run
from buddy.backends.native.dispatch import Dispatch
from buddy.backends.native.interrupted_reply import PartialReply, keep_interrupted
from buddy.backends.native.pricing import cost_of
from buddy.backends.native.prompt import Prompts, PromptSettings
from buddy.backends.native.reply import read_reply
from buddy.backends.native.session_tools import SessionTools
from buddy.backends.native.watch import RunWatch, report_model_call
from buddy.backends.runstate import TurnState
from buddy.errors import RunEnded
from buddy.models.contract import Provider, TokenUsage
from buddy.protocol.events import LASTING, AssistantRestart, EventBody, Informational
from buddy.protocol.shapes import ContextState
from buddy.tools.contract import Place
from buddy.tools.registry import Registry
from buddy.tools.source import ToolSource


class Native:
    """Buddy's own agent."""

    name = "native"
    lasting = LASTING

    def __init__(
        self,
        choose: Callable[[str | None, str | None], Provider],
        tools: ToolSource,
        has_room: Callable[[], bool],
        settings: PromptSettings,
        profile: str | None = None,
        model: str | None = None,
        *,
        dispatch: Callable[[Registry, Callable[[], bool]], Dispatch] = Dispatch,
    ) -> None:
        self._choose = choose
        self._provider = choose(profile, model)
        self._tools = SessionTools(tools)
        self._has_room = has_room
        self._dispatch = dispatch
        self._prompts = Prompts(settings)
        self._partial = PartialReply()

    def observe(self, seq: int, body: EventBody) -> None:
        if isinstance(body, Informational):
            return  # nothing here depends on it
        self._prompts.observe(seq, body)
        if type(body) in PartialReply.observed:
            self._partial.observe(body)
        if type(body) in SessionTools.observed:
            self._tools.observe(body)

    def begin_late(self, first: int, base: int) -> None:
        self._prompts.begin_late(first, base)

    def use_log(self, read: ReadPast) -> None:
        self._prompts.use_log(read)

    async def reach_back(self) -> None:
        if not self._prompts.transcript.compactions.can_undo:
            await self.reread()

    async def reread(self) -> None:
        await self._prompts.reread()

    def model(self) -> ModelName:
        provider = self._provider
        return ModelName(provider.profile, provider.model, provider.api, provider.context_limit)

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The tools of the current turn."""
        return self._tools.names

    def measured_context(self) -> ContextState | None:
        sizes = self._prompts.measured
        return sizes.context(sizes.prompt) if sizes else None

    async def switch(self, profile: str | None, model: str | None) -> ModelName:
        """A model without a profile belongs to the current profile, unless its name says otherwise."""
        if profile is None and model is None:
            return self.model()
        before, chosen = self._provider, self._choose(profile, model)
        if profile is None and chosen.profile not in (before.profile, (model or "").partition("/")[0]):
            await chosen.close()
            chosen = self._choose(before.profile, model)
        self._provider = chosen
        await before.close()
        return self.model()

    async def compact(self) -> Compaction | None:
        return await self._prompts.compact(self._provider)

    async def is_priced(self, place: Place) -> bool:
        del place  # the price is the same everywhere
        return await cost_of(self._provider, TokenUsage(0, 0)) is not None

    async def execute(self, run: Run) -> None:
        if run.state.partial:
            run.emit(AssistantRestart(reason="interrupted"))
        with RunWatch(run) as watch:
            while not run.state.answered or await run.record_steering():
                if not run.state.open_calls:
                    watch.begin(TurnState.STREAMING)
                    await self._turn(run)
                    watch.end()
                if run.state.open_calls:
                    await self._run_tools(run, watch)
        if run.state.truncated:
            raise RunEnded("truncated", "the model's reply was cut off before it was complete")

    async def close(self) -> None:
        await self._provider.close()

    async def _turn(self, run: Run) -> None:
        await run.record_steering()
        asked = await self._prompts.ask(run, self._provider, await self._tools.refresh(run))
        report_model_call(run, self._provider.model)
        try:
            await read_reply(run, self._provider, asked, self._prompts.known_calls(run.state.recording))
        except asyncio.CancelledError:
            await keep_interrupted(run, self._partial)
            raise

    async def _run_tools(self, run: Run, watch: RunWatch) -> None:
        registry = (await self._tools.current(run)).registry
        watch.begin_tools(registry)
        await self._dispatch(registry, self._has_room).settle(run)
        watch.end_tools()
