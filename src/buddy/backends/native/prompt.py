"""Builds the prompt of one model call: instructions, summary, memory, tools, history, and the room they leave.

Invariants:
- the history is sent as it is: additions (memory before the user's message, a budget note at the end) are not part of
  it, and stay the same object while their text is the same, so that wires encode them once;
- at 80 % of the window there is a warning, at 85 % a compaction down to 50 %, and if 95 % remain the run ends; the
  server is asked for the window before that, and while nobody knows it, nothing is given up for it;
- a call that does not fit into the run's budget is not made.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from buddy.backends.budget import MIN_OUTPUT, Budget
from buddy.backends.contract import Compaction, ReadPast, Run, compaction_event
from buddy.backends.native.loaded_images import LoadedImages, ReadBlob
from buddy.backends.native.pinned import Pins
from buddy.backends.native.pricing import cost_of
from buddy.backends.native.reply import MARKED_SINCE, KnownCalls, ModelCall
from buddy.backends.native.session_tools import Catalog
from buddy.backends.native.sizes import Sizes, Tally
from buddy.backends.native.system import system_prompt
from buddy.backends.native.transcript import Transcript
from buddy.backends.native.window import KnownWindow
from buddy.backends.runstate import Spending
from buddy.errors import RunEnded
from buddy.models.contract import Item, Prompt, Provider, TokenUsage, UserItem
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.events import EventBody, WarningRaised
from buddy.steps import take_turns

if TYPE_CHECKING:
    from buddy.backends.native.compact import Cut, Summary
    from buddy.backends.native.summary import Account

WARN, COMPACT, TARGET, FULL = 0.80, 0.85, 0.50, 0.95
SHARPEN = 0.5
LEAST_KEPT = 0.1
RECALL_SECONDS = 2.0

Recall = Callable[[str], Awaitable[str]]


class PromptSettings(Struct, frozen=True):
    """What the prompts of a session contain besides its history and its tools."""

    instructions: str = ""
    user_folder: Path | None = None
    recall: Recall | None = None
    temperature: float | None = None
    top_p: float | None = None
    read_blob: ReadBlob | None = None


class Prompts:
    """The prompts of one session: a fold of its events, and what was read for the current run."""

    def __init__(self, settings: PromptSettings) -> None:
        self.transcript = Transcript()
        self._settings = settings
        self._catalog: Catalog | None = None
        self._pins = Pins()
        self._pinned_from = 0  # what came before this seq is not in the pins
        self._read: ReadPast | None = None
        self._tally = Tally("")
        self._run_id = ""
        self._system = ""
        self._recalled: tuple[UserItem | None, UserItem | None] = None, None
        self._is_warned = False
        self._window = KnownWindow()
        self._images = LoadedImages(settings.read_blob)
        self.measured: Sizes | None = None

    def known_calls(self, recording: int) -> KnownCalls:
        """The ids of calls that the next reply cannot use, by the version of what its run records."""
        is_marked = self._pins.is_pruned or (self.transcript.compactions.is_deep and recording >= MARKED_SINCE)
        return KnownCalls(self.transcript.call_ids, is_complete=not is_marked)

    def begin_late(self, first: int, base: int) -> None:
        """The events before `first` will not be observed, except settings; `base` is the seq of a later compaction."""
        self._pinned_from = first
        self.transcript.compactions.begin_late(base)

    def use_log(self, read: ReadPast) -> None:
        """From now on, what is not held can be read."""
        self._read = read
        self.transcript.bound()

    async def reread(self) -> None:
        """Hold what the log has, and nothing that it no longer has."""
        if self._read is None:
            return
        transcript, pins = Transcript(), Pins()
        async for seq, body in self._read(None):
            transcript.apply(seq, body)
            pins.apply(seq, body)
        transcript.bound()
        self.transcript, self._pins, self._pinned_from, self.measured = transcript, pins, 0, None

    def observe(self, seq: int, body: EventBody) -> None:
        if type(body) in KnownWindow.observed:
            self._window.observe(body)
        self.transcript.apply(seq, body)
        self._pins.apply(seq, body)

    async def ask(self, run: Run, provider: Provider, catalog: Catalog) -> ModelCall:
        """The next model call of this run, with its tokens reserved; ends the run if there is no room."""
        Budget.of(run).check()
        await self._begin(run, provider, catalog)
        await self._recall()
        self.measured = sizes = await self._fit(run, provider)
        wanted = await _spending(run, provider, sizes)
        Budget.of(run).reserve(wanted)
        if self.transcript.has_images:
            await self._images.load(self.transcript.items)
        return ModelCall(self._prompt(run), sizes, wanted, self._tally)

    async def compact(self, provider: Provider) -> Compaction | None:
        """Summarise the history before the last messages, on request of a person."""
        from buddy.backends.native.compact import cut_old_messages
        from buddy.backends.native.summary import NoAccount

        await take_turns(self._use(provider).count_ahead(self.transcript.items))
        cut = cut_old_messages(self.transcript, self._tally)
        return await self._shorten(cut, provider, NoAccount()) if cut else None

    async def _begin(self, run: Run, provider: Provider, catalog: Catalog) -> None:
        """Write the system prompt once per run, and again if the tools it names have changed."""
        self._use(provider)
        if self._run_id != run.run_id or self._catalog is not catalog:
            settings, limit = self._settings, provider.context_limit
            self._system = await system_prompt(run, catalog.names, settings.instructions, settings.user_folder, limit)
            if self._run_id not in ("", run.run_id):
                self._forget_calls()
            self._run_id, self._catalog = run.run_id, catalog

    def _use(self, provider: Provider) -> Tally:
        if provider.model != self._tally.model:
            self._tally = Tally(provider.model)
        return self._tally

    def _forget_calls(self) -> None:
        """Forget the ids of other runs' calls, if those of the next ones have the mark of their run."""
        if self._read is not None and self.transcript.compactions.is_deep:
            self.transcript.call_ids.clear()

    async def _recall(self) -> None:
        """Ask memory about the user's last message, once for each."""
        said = self.transcript.asked
        if self._settings.recall is None or said is self._recalled[0]:
            return
        found = ""
        if said is not None:
            try:
                async with asyncio.timeout(RECALL_SECONDS):
                    found = await self._settings.recall(said.text)
            except TimeoutError:
                pass  # better a reply without memory than none
        self._recalled = said, UserItem(f"<memory>\n{found}\n</memory>") if found.strip() else None

    async def _fit(self, run: Run, provider: Provider) -> Sizes:
        """Make room if the window is nearly full, and warn about it."""
        sizes = await self._measure(provider)
        limits = run.state.options.budget
        if sizes.share >= SHARPEN or limits.max_tokens is not None or limits.max_cost_usd is not None:
            is_assumed = await self._window.find(provider)
            self._tally.sharpen()
            sizes = await self._measure(provider)
            if is_assumed:
                return sizes
        if sizes.share >= COMPACT:
            sizes = await self._make_room(run, provider, sizes)
        if sizes.share >= FULL:
            raise RunEnded("context_full", _full(sizes))
        self._warn(run, sizes)
        return sizes

    def _warn(self, run: Run, sizes: Sizes) -> None:
        if sizes.share >= WARN and not self._is_warned:
            used = f"{sizes.share:.0%} of {sizes.limit} tokens"
            detail = "older turns are summarised at 85 %"
            run.emit(WarningRaised(code="CONTEXT_80", message=f"the model's context is {used} full", detail=detail))
        self._is_warned = sizes.share >= WARN

    async def _make_room(self, run: Run, provider: Provider, sizes: Sizes) -> Sizes:
        from buddy.backends.native.compact import cut_to_fit
        from buddy.backends.native.summary import RunAccount

        limit = provider.context_limit
        summary = int(limit * LEAST_KEPT)
        room = max(int(limit * TARGET) - sizes.fixed - summary, int(limit * LEAST_KEPT))
        cut = cut_to_fit(self.transcript, self._tally, room)
        if cut is not None and not await run.hooks.may_compact():
            return sizes
        found = await self._shorten(cut, provider, RunAccount(run, provider, sizes)) if cut else None
        if found is not None:
            fixed = sizes.prompt - sizes.summary - sizes.history
            run.emit(compaction_event(found, RuntimeActor.AUTO_COMPACTION, besides_history=fixed))
            await run.commit()
        return await self._measure(provider)

    async def _shorten(self, cut: "Cut", provider: Provider, account: "Account") -> Compaction | None:
        from buddy.backends.native.compact import shorten
        from buddy.backends.native.summary import summarise

        async def summarise_items(items: list[Item]) -> "Summary | None":
            return await summarise(items, provider, self._tally, account)

        return await shorten(cut, await self.complete_pins(), self._tally, provider.context_limit, summarise_items)

    async def complete_pins(self) -> Pins:
        """What a compaction keeps word for word, from the whole log."""
        if self._pinned_from and self._read is not None:
            earlier = Pins()
            async for seq, body in self._read(self._pinned_from - 1):
                earlier.apply(seq, body)
            self._pins.prepend(earlier.parts())
            self._pinned_from = 0
        return self._pins

    async def _measure(self, provider: Provider) -> Sizes:
        tally, memory = self._tally, self._recalled[1]
        total = await take_turns(tally.items(self.transcript.items))
        summary = self.transcript.summary
        summarised = tally.item(summary) if summary else 0
        return Sizes(
            system=tally.fixed(self._system),
            summary=summarised,
            memory=tally.item(memory) if memory else 0,
            tools=tally.fixed(self._catalog.text if self._catalog else ""),
            history=max(0, total - summarised),
            limit=provider.context_limit,
        )

    def _prompt(self, run: Run) -> Prompt:
        settings = self._settings
        return Prompt(
            system=self._system,
            items=self._items(run),
            tools=self._catalog.specs if self._catalog else (),
            temperature=settings.temperature,
            top_p=settings.top_p,
            images=self._images.contents,
        )

    def _items(self, run: Run) -> list[Item]:
        items, said, memory = self.transcript.closed(), self.transcript.asked, self._recalled[1]
        shortage = Budget.of(run).shortage()
        if not memory and not shortage:
            return items
        note = UserItem(f"<budget>{shortage}</budget>") if shortage else None
        if note and items[-1] is not said:
            items, note = [*items, note], None
        added = [item for item in (memory, note) if item]
        if not added:
            return items
        at = next((at for at in range(len(items) - 1, -1, -1) if items[at] is said), len(items))
        return [*items[:at], *added, *items[at:]]


async def _spending(run: Run, provider: Provider, sizes: Sizes) -> Spending:
    cost = None
    if run.state.options.budget.max_cost_usd is not None or run.check_day is not None:
        cost = await cost_of(provider, TokenUsage(sizes.prompt, MIN_OUTPUT))
    return Spending(sizes.prompt + MIN_OUTPUT, cost)


def _full(sizes: Sizes) -> str:
    parts = f"system {sizes.system}, tools {sizes.tools}, summary {sizes.summary}, history {sizes.history}"
    return f"the model's context of {sizes.limit} tokens is full ({parts}) and nothing more can be summarised"
