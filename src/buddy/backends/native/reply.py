"""One model call: its pieces become events, its whole becomes `assistant_message`."""

from buddy.backends.contract import Run
from buddy.models.contract import (
    Notice,
    Prompt,
    Provider,
    Reply,
    Restart,
    Retrying,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
)
from buddy.protocol.events import (
    AssistantDone,
    AssistantMessage,
    AssistantRestart,
    ModelRequest,
    Usage,
    Warning,  # noqa: A004 - the seed's word
)
from buddy.protocol.shapes import BudgetState, ContextState, ToolCallItem


async def read_reply(run: Run, provider: Provider, prompt: Prompt, turn: int, known_calls: set[str]) -> None:
    """Make the call and record all that comes of it; ProviderError where nothing usable came."""
    run.emit(_request(provider, turn))
    await run.commit()
    async for piece in provider.stream(prompt):
        match piece:
            case TextDelta():
                run.stream("assistant_token", piece.text)
            case ThinkingDelta():
                run.stream("thinking_token", piece.text)
            case Restart():
                run.emit(AssistantRestart(reason=piece.reason))
            case Retrying():
                run.emit(_request(provider, turn, piece))
            case Notice():
                run.emit(Warning(code=piece.code, message=piece.message, detail=piece.detail or None))
            case Reply():
                _record(run, provider, piece, turn, known_calls)


def _request(provider: Provider, turn: int, retry: Retrying | None = None) -> ModelRequest:
    return ModelRequest(
        turn=turn,
        profile=provider.profile,
        model=provider.model,
        api=provider.api,
        attempt=retry.attempt if retry else 1,
        reason=retry.reason if retry else None,
        wait_ms=retry.wait_ms if retry else None,
    )


def _record(run: Run, provider: Provider, reply: Reply, turn: int, known_calls: set[str]) -> None:
    message_id = f"asst_{run.run_id.removeprefix('run_')}.{turn}"
    run.emit(
        AssistantMessage(
            message_id=message_id,
            text=reply.text,
            tool_calls=_unambiguous(reply.calls, known_calls),
            finish=reply.finish,
            truncated=reply.truncated,
            opaque=reply.opaque,
        )
    )
    run.emit(AssistantDone(message_id=message_id))
    usage = reply.usage or TokenUsage(0, 0)
    run.emit(
        Usage(
            turn=turn,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cost_usd=usage.cost_usd,
            context=ContextState(usage.input_tokens + usage.output_tokens, provider.context_limit),
            budget=budget_of(run, usage),
        )
    )


def budget_of(run: Run, usage: TokenUsage) -> BudgetState:
    """What the run has used once this call is settled."""
    state = run.state
    cost = None if usage.cost_usd is None and state.cost_usd is None else (state.cost_usd or 0) + (usage.cost_usd or 0)
    return BudgetState(
        turns=state.turns,
        tokens=state.tokens + usage.input_tokens + usage.output_tokens,
        tool_calls=state.tool_calls,
        seconds=run.seconds(),
        limits=state.options.budget,
        cost_usd=cost,
    )


def _unambiguous(calls: tuple[ToolCallItem, ...], known: set[str]) -> tuple[ToolCallItem, ...]:
    """Ids that were used before, in this session or this reply, get a new tail: a result must belong to one call."""
    seen: set[str] = set()
    unique: list[ToolCallItem] = []
    for call in calls:
        call_id, tail = call.call_id, 1
        while call_id in known or call_id in seen:
            tail += 1
            call_id = f"{call.call_id}.{tail}"
        seen.add(call_id)
        unique.append(ToolCallItem(call_id, call.name, call.arguments))
    return tuple(unique)
