"""One model call: its pieces become events, the complete reply becomes `assistant_message`."""

from collections.abc import Set as AbstractSet
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from buddy.backends.budget import Budget
from buddy.backends.contract import Run
from buddy.backends.native.sizes import Sizes, Tally
from buddy.backends.runstate import Spending
from buddy.models.contract import (
    AssistantItem,
    Notice,
    Prompt,
    Provider,
    Reply,
    Restart,
    Retrying,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    is_window_assumed,
)
from buddy.models.limits import limit_calls
from buddy.protocol.events import (
    AssistantDone,
    AssistantMessage,
    AssistantRestart,
    ModelRequest,
    Usage,
    WarningRaised,
)
from buddy.protocol.shapes import ContextState, ToolCallItem
from buddy.steps import take_turns

RUN_MARK = 8
"""The number of characters of a run's id that make the ids of its calls unique."""
MARKED_SINCE = 4
"""Since which version of what runs record the calls of a session that was compacted often are marked."""


class ModelCall(Struct, frozen=True):
    """A model call that may be made: its prompt, the sizes of its parts, and what was reserved for it."""

    prompt: Prompt
    sizes: Sizes
    reserved: Spending
    tally: Tally


class KnownCalls(Struct, frozen=True):
    """The ids of the session's calls; unless `is_complete`, there were others before."""

    ids: AbstractSet[str]
    is_complete: bool = True


async def read_reply(run: Run, provider: Provider, asked: ModelCall, known_calls: KnownCalls) -> None:
    """Make the call and record everything it returns; ProviderError if nothing usable came."""
    turn = run.state.turns + 1
    run.emit(request_of(provider, turn, asked.reserved))
    await run.commit()
    async for piece in provider.stream(asked.prompt):
        match piece:
            case TextDelta():
                await run.stream("assistant_token", piece.text)
            case Reply():
                await _record(run, piece, turn, known_calls)
                run.emit(await _usage_event(run, turn, asked, piece, provider))
            case ThinkingDelta():
                await run.stream("thinking_token", piece.text)
            case Restart():
                run.emit(AssistantRestart(reason=piece.reason))
            case Retrying():
                run.emit(request_of(provider, turn, asked.reserved, piece))
            case Notice():
                run.emit(WarningRaised(code=piece.code, message=piece.message, detail=piece.detail or None))


def request_of(
    provider: Provider,
    turn: int,
    reserved: Spending,
    retry: Retrying | None = None,
    *,
    purpose: Literal["reply", "summary"] = "reply",
) -> ModelRequest:
    return ModelRequest(
        turn=turn,
        profile=provider.profile,
        model=provider.model,
        api=provider.api,
        attempt=retry.attempt if retry else 1,
        reason=retry.reason if retry else None,
        wait_ms=retry.wait_ms if retry else None,
        purpose=purpose,
        reserved_tokens=reserved.tokens,
        reserved_cost_usd=reserved.cost_usd,
    )


def usage_of(run: Run, turn: int, usage: TokenUsage, context: ContextState, *, estimated: bool = False) -> Usage:
    """What a call took, and what is left of the run's budget."""
    return Usage(
        turn=turn,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost_usd=usage.cost_usd,
        context=context,
        budget=Budget.of(run).after(usage),
        estimated=estimated,
    )


async def _usage_event(run: Run, turn: int, asked: ModelCall, reply: Reply, provider: Provider) -> Usage:
    """What the call took as the server reports it, or as counted here if it reports nothing."""
    usage, tally = reply.usage, asked.tally
    if usage is None:
        written = await take_turns(tally.item_steps(AssistantItem(reply.text, reply.calls)))
        usage = TokenUsage(asked.sizes.prompt, written, cost_usd=asked.reserved.cost_usd)
    else:
        tally.learn(asked.sizes.prompt, usage.input_tokens)
    # The server may report its window with this very reply.
    sizes = replace(asked.sizes, limit=provider.context_limit, is_limit_assumed=is_window_assumed(provider))
    context = sizes.context(usage.input_tokens + usage.output_tokens)
    return usage_of(run, turn, usage, context, estimated=reply.usage is None)


async def _record(run: Run, reply: Reply, turn: int, known_calls: KnownCalls) -> None:
    message_id = f"asst_{run.run_id.removeprefix('run_')}.{turn}"
    message = AssistantMessage(
        message_id=message_id,
        text=reply.text,
        tool_calls=_unique_ids(await take_turns(limit_calls(reply.calls)), known_calls, run.run_id[-RUN_MARK:]),
        finish=reply.finish,
        truncated=reply.truncated,
        opaque=reply.opaque,
    )
    await run.scrub_ahead(message)
    run.emit(message)
    run.emit(AssistantDone(message_id=message_id))


def _unique_ids(calls: tuple[ToolCallItem, ...], known: KnownCalls, mark: str) -> tuple[ToolCallItem, ...]:
    """Ids that were used before, in this session or this reply, get a suffix: a result must belong to one call.

    If the beginning of the log was pruned or is not read, nobody knows what was used, and each has the mark of its run.
    """
    seen: set[str] = set()
    unique: list[ToolCallItem] = []
    for call in calls:
        is_marked = known.is_complete or call.call_id.endswith(f".{mark}")
        wanted = call.call_id if is_marked else f"{call.call_id}.{mark}"
        call_id, tail = wanted, 1
        while call_id in known.ids or call_id in seen:
            tail += 1
            call_id = f"{wanted}.{tail}"
        seen.add(call_id)
        unique.append(ToolCallItem(call_id, call.name, call.arguments))
    return tuple(unique)
