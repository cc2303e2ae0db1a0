"""The system prompt: one template, filled once per run, so that providers can cache it."""

from functools import cache
from pathlib import Path

from buddy.backends.contract import Run
from buddy.backends.native.notes import find_notes, render_notes
from buddy.capabilities import has
from buddy.errors import ToolError
from buddy.targets.contract import Target, Terminal

SCREEN = 2500


async def system_prompt(run: Run, tools: tuple[str, ...], instructions: str, folder: Path | None, limit: int) -> str:
    """The instructions for this run; the project's notes may take a quarter of the model's `limit`, in tokens."""
    place = run.place
    # As many characters as the limit has tokens, which is about a quarter of it.
    notes = render_notes(await find_notes(place, folder), limit)
    return _template().format(
        root=place.root,
        target=place.target.name,
        sandbox=place.sandbox,
        tools=", ".join(tools) or "none",
        notes=await run.scrub_long(notes),
        screen=await run.scrub_long(await _screen(place.target)),
        instructions=await run.scrub_long(f"\n{instructions}\n") if instructions else "",
    )


async def _screen(target: Target) -> str:
    """What a person sees in the tmux pane, if there is one, as the run begins."""
    if not has(target, Terminal):
        return ""
    try:
        shown = (await target.snapshot()).strip("\n")[-SCREEN:]
    except ToolError:
        return ""
    return f"\n<terminal>\n{shown}\n</terminal>\n" if shown.strip() else ""


@cache
def _template() -> str:
    return Path(__file__).with_name("system_prompt.md").read_text(encoding="utf-8").removesuffix("\n")
