"""Acceptance checks: commands of the user that decide whether a run did what it was for.

They run in the run's target and sandbox, without approval (the user wrote them), and are recorded as events.
"""

from buddy.approvals.digest import nonce_of
from buddy.backends.contract import Run
from buddy.backends.native.bounds import shorten_middle
from buddy.protocol.events import AcceptanceResult, Status
from buddy.protocol.shapes import Acceptance, Criterion, CriterionResult
from buddy.tools.output_buffer import OutputBuffer

MAX_OUTPUT = 1024 * 1024
LAST_ROUND_SINCE = 5
"""The first version of a recording whose outcome has the results of the last complete round; before, those of the round
that the run ended in."""


def acceptance_of(run: Run) -> Acceptance | None:
    """The results of the last complete round, for run_complete; None if there are no checks."""
    criteria = run.state.options.acceptance_criteria
    if not criteria:
        return None
    known, before = run.state.checks, run.state.last_checks
    if before and len(known) < len(criteria) and run.state.recording >= LAST_ROUND_SINCE:
        known = before
    results = tuple(
        CriterionResult(found.id, found.passed, found.exit_code, found.output) if found else _not_checked(criterion)
        for criterion in criteria
        for found in [known.get(criterion.id)]
    )
    return Acceptance(len(results), sum(result.passed for result in results), results)


async def check(run: Run) -> list[AcceptanceResult]:
    """Run the checks of this round that have no result yet (a restart may find some done)."""
    for criterion in run.state.options.acceptance_criteria:
        if criterion.id not in run.state.checks:
            run.emit(Status(source="acceptance", phase="Checking", detail=criterion.check))
            await run.commit()
            run.emit(await _result_of(run, criterion))
    return list(run.state.checks.values())


async def _result_of(run: Run, criterion: Criterion) -> AcceptanceResult:
    output = OutputBuffer(MAX_OUTPUT)

    async def on_output(_stream: str, data: bytes) -> None:
        output.add("stdout", data)

    nonce = nonce_of(run.session_id, f"{run.run_id}/{criterion.id}")
    await run.place.target.kill_orphans(nonce)
    finished = await run.place.target.run(criterion.check, cwd=run.place.root, nonce=nonce, on_output=on_output)
    return AcceptanceResult(
        id=criterion.id,
        passed=finished.exit_code == criterion.exit_code,
        exit_code=finished.exit_code,
        output=shorten_middle(await run.scrub_long(output.text("stdout")), 4096),
        round=run.state.round,
    )


def _not_checked(criterion: Criterion) -> CriterionResult:
    return CriterionResult(criterion.id, False, -1, "not checked")


def report(failed: list[AcceptanceResult]) -> str:
    parts = [f"Check {result.id} failed with exit code {result.exit_code}:\n{result.output}" for result in failed]
    return "The work is not accepted yet.\n" + "\n".join(parts)
