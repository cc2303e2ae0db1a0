"""The turn loop: ask the model, do what it asks, until it answers.

What always holds: the loop decides by `run.state` alone, so a run that was cut anywhere goes on from there; it does no
I/O of its own (provider, tools and log are passed in).
"""

from collections.abc import Callable

from buddy.backends.contract import BudgetExceeded, Compaction, ModelName, Run, RunEnded
from buddy.backends.native.compact import compaction_of
from buddy.backends.native.dispatch import Dispatch
from buddy.backends.native.reply import read_reply
from buddy.backends.native.transcript import Transcript
from buddy.models.contract import Prompt, Provider
from buddy.protocol.events import AssistantRestart, EventBody, Progress, Status


class Native:
    """Buddy's own agent."""

    name = "native"

    def __init__(
        self,
        choose: Callable[[str | None, str | None], Provider],
        dispatch: Dispatch,
        prompt: Callable[[Run, Transcript], Prompt],
        profile: str | None = None,
        model: str | None = None,
    ) -> None:
        self._choose = choose
        self._provider = choose(profile, model)
        self._dispatch = dispatch
        self._prompt = prompt
        self._transcript = Transcript()

    def observe(self, seq: int, body: EventBody) -> None:
        self._transcript.apply(seq, body)

    def model(self) -> ModelName:
        provider = self._provider
        return ModelName(provider.profile, provider.model, provider.api, provider.context_limit)

    async def switch(self, profile: str | None, model: str | None) -> ModelName:
        before, self._provider = self._provider, self._choose(profile, model)
        await before.close()
        return self.model()

    def compact(self) -> Compaction | None:
        return compaction_of(self._transcript)

    async def execute(self, run: Run) -> None:
        if run.state.partial:
            run.emit(AssistantRestart(reason="interrupted"))
        while not run.state.answered or await run.steers():
            if not run.state.open_calls:
                await self._turn(run)
            if run.state.open_calls:
                await self._tools(run)
        if run.state.truncated:
            raise RunEnded("truncated", "the model's reply was cut off before it was whole")

    async def close(self) -> None:
        await self._provider.close()

    async def _turn(self, run: Run) -> None:
        await run.steers()
        check_budget(run)
        turn, most = run.state.turns + 1, run.state.options.budget.max_turns or 50
        run.emit(Progress(kind="provider_call", message=f"[{turn}/{most}] Calling provider", turn=turn, max_turns=most))
        run.emit(Status(source="orchestrator", phase="Calling model", detail=self._provider.model))
        await read_reply(run, self._provider, self._prompt(run, self._transcript), turn, self._transcript.call_ids)

    async def _tools(self, run: Run) -> None:
        turn, most = max(run.state.turns, 1), run.state.options.budget.max_turns or 50
        names = tuple(call.item.name for call in run.state.open_calls.values())
        message = f"[{turn}/{most}] Executing tools: {', '.join(names)}"
        run.emit(Progress(kind="tool_execution", message=message, turn=turn, max_turns=most, tool_names=names))
        await self._dispatch.settle(run)


def check_budget(run: Run) -> None:
    """A call that cannot fit is not made."""
    state, limits = run.state, run.state.options.budget
    spent = (
        (limits.max_turns, state.turns, "turns"),
        (limits.max_tokens, state.tokens, "tokens"),
        (limits.max_cost_usd, state.cost_usd or 0, "US dollars"),
    )
    for limit, used, unit in spent:
        if limit is not None and used >= limit:
            raise BudgetExceeded(f"the budget of {limit:g} {unit} is used up")
