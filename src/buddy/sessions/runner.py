"""Performs a run: the backend works, acceptance checks judge it, and the run ends.

Invariant: exactly one `run_complete`, its last event, whatever happened before it.
"""

import asyncio
import traceback
from collections.abc import Awaitable, Callable

from msgspec import Struct

from buddy.backends.budget import BudgetExceeded, used_up
from buddy.backends.contract import Backend, Run
from buddy.backends.interrupted import end_started_calls
from buddy.backends.runstate import OpenCall
from buddy.errors import (
    REPLACED,
    REPLACED_HINT,
    LogError,
    OutcomeUnknown,
    ProviderError,
    RunEnded,
    is_replaced,
)
from buddy.protocol.actors import RuntimeActor
from buddy.protocol.amounts import format_amount
from buddy.protocol.codes import EXIT_ACCEPTANCE, EXIT_BUDGET, EXIT_CODES, BudgetLimit, Outcome
from buddy.protocol.events import Error, RunComplete, ToolCall, ToolResult, UserMessage
from buddy.protocol.shapes import Headless, ToolFailure
from buddy.sessions.acceptance import acceptance_of, check, report

_NOT_RUN = "Not run: "
_STOPPED = str(OutcomeUnknown("the run was stopped while this call was running"))

_EXITS = {"budget_exceeded": EXIT_BUDGET, "acceptance_failed": EXIT_ACCEPTANCE}
SUMMARY = 2000


class Ending(Struct, frozen=True):
    outcome: Outcome
    summary: str
    reason: str | None = None
    limit: BudgetLimit | None = None


async def perform(run: Run, backend: Backend) -> None:
    """Work until the run has ended, and record how; only a refused append is raised."""
    ending = await _outcome_of(run, backend)
    await _finish(run.stop_children)
    await _finish(run.files.finish)
    if run.state.cancelling is not None:
        ending = Ending("cancelled", f"cancelled: {run.state.cancelling}", "cancelled")
    complete(run, ending)
    await _finish(run.finish)


async def _finish(work: Callable[[], Awaitable[None]]) -> None:
    """Do what the end of a run needs: its outcome is certain, so there is nothing left to cancel."""
    while True:
        try:
            await work()
        except asyncio.CancelledError:
            continue
        return


def complete(run: Run, ending: Ending) -> None:
    """Close the open calls and record the outcome. Nothing awaits here, so no cancel can come between."""
    for call in list(run.state.open_calls.values()):
        if call.stage == "requested":
            run.emit(_announcement(run, call))
        run.emit(_closing_result(run, call))
    acceptance = acceptance_of(run)
    run.emit(
        RunComplete(
            run_id=run.run_id,
            outcome=ending.outcome,
            summary=run.scrub(ending.summary[: 2 * SUMMARY])[:SUMMARY],
            acceptance=acceptance,
            headless=Headless(_EXITS.get(ending.reason or "", EXIT_CODES[ending.outcome])),
            reason=ending.reason,
            limit=ending.limit,
        )
    )


async def _outcome_of(run: Run, backend: Backend) -> Ending:
    limit = run.state.options.budget.max_seconds
    left = None if limit is None else max(0.0, limit - run.seconds())
    deadline = asyncio.timeout(left)
    try:
        await _end_interrupted_calls(run, left)
        async with deadline:
            if run.state.cancelling is None:
                await _work_until_accepted(run, backend)
            # Here, where it can take its time; it has no secrets, but is scrubbed again when it is recorded.
            summary = await run.scrub_long(run.state.last_text[:SUMMARY])
    except TimeoutError as error:
        if not deadline.expired():
            return _bug(run, error)
        return Ending("failed", used_up(limit or 0, "seconds"), "budget_exceeded", "seconds")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        return Ending("cancelled", "cancelled", "cancelled")
    except RunEnded as ended:
        return _ending_of(run, ended)
    except ProviderError as error:
        run.emit(Error(code="PROVIDER_ERROR", message=str(error), retryable=error.retryable, detail=error.hint or None))
        return Ending("failed", str(error), "provider_error")
    except LogError:
        raise
    except Exception as error:  # noqa: BLE001 - the one home of a broad except: a bug ends the run, not the session
        return _bug(run, error)
    return Ending("success", summary)


async def _end_interrupted_calls(run: Run, left: float | None) -> None:
    """If the run was already ending when its process died, its backend does not run again to stop its calls."""
    if run.state.cancelling is not None or left == 0:
        await end_started_calls(run)


async def _work_until_accepted(run: Run, backend: Backend) -> None:
    """Work, check, report what failed, and try again, until every check has passed or the rounds are used up."""
    await run.hooks.screen_messages()
    while True:
        if backend.name != "native":
            await run.files.watch(run.run_id, "agent")
        await backend.execute(run)
        if await run.hooks.is_kept_going():
            continue
        if run.state.options.acceptance_criteria:
            await run.files.watch(run.run_id, "checks")
        failed = [result for result in await check(run) if not result.passed]
        if not failed:
            return
        number = run.state.round
        if number >= run.state.options.max_rounds:
            names = ", ".join(result.id for result in failed)
            rounds = format_amount(number, "round")
            raise RunEnded("acceptance_failed", f"acceptance checks still fail after {rounds}: {names}")
        run.emit(UserMessage(message_id=f"{run.run_id}.round{number}", text=report(failed), by=RuntimeActor.ACCEPTANCE))


def _ending_of(run: Run, ended: RunEnded) -> Ending:
    if ended.reason == "storage_full":
        run.emit(Error(code="STORAGE_FULL", message=str(ended), retryable=True))
    limit = ended.limit if isinstance(ended, BudgetExceeded) else None
    return Ending("denied" if ended.outcome == "denied" else "failed", str(ended), ended.reason, limit)


def _bug(run: Run, error: Exception) -> Ending:
    detail = "".join(traceback.format_exception(error)[-3:])
    message = f"{REPLACED}; {REPLACED_HINT}" if is_replaced(error) else str(error) or type(error).__name__
    run.emit(Error(code="INTERNAL_ERROR", message=message, retryable=False, detail=detail))
    return Ending("failed", f"internal error: {message}", "internal_error")


def _announcement(run: Run, call: OpenCall) -> ToolCall:
    """The `tool_call` of a call that was not announced: each result has one, even if the run ended in between."""
    item = call.item
    return ToolCall(
        source="unknown",
        tool_name=item.name,
        args={"raw": item.arguments},
        call_id=item.call_id,
        target=run.place.target.name,
    )


def _closing_result(run: Run, call: OpenCall) -> ToolResult:
    begun = call.stage == "called" or (call.stage == "approved" and call.is_claimed)
    started = call.stage == "claimed" or (call.is_delegate and begun)
    if started:
        text = _STOPPED
    elif call.stage == "denied":
        is_late = call.by == RuntimeActor.TIMEOUT
        text = f"{_NOT_RUN}{call.comment if is_late else f'denied by {call.by}'}."
    else:
        text = f"{_NOT_RUN}the run ended before this call started."
    failure = ToolFailure("UNKNOWN_OUTCOME" if started else "UNKNOWN", False, text)
    return ToolResult(
        source=call.source,
        tool_name=call.item.name,
        duration_ms=0,
        is_error=True,
        text=text,
        structured_error=failure,
        call_id=call.item.call_id,
        target=run.place.target.name,
        outcome="closed",
    )
