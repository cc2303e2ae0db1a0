"""Reads the shared tmux pane, now or a moment later.

Invariants: nothing is changed; a pane other than the session's own is read only after a decision; on a target without
a pane the call fails with a message that says so.
"""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from buddy.capabilities import has
from buddy.errors import ToolError
from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.targets.contract import Capture, PaneInfo, Terminal
from buddy.tools.contract import Call, Output, Place
from buddy.tools.delays import parse_delay
from buddy.tools.texts import text_of

SHOWN = 8000


class CapturePaneArgs(Struct, frozen=True, forbid_unknown_fields=True):
    target: Annotated[str | None, Meta(description="Another pane, as %1 or session:window.pane.")] = None
    start: Annotated[
        str | None,
        Meta(description="First line: 0 is the top of the screen, -10 ten above, - the oldest."),
    ] = None
    end: Annotated[str | None, Meta(description="Last line, counted the same way.")] = None
    join_wrapped_lines: Annotated[bool, Meta(description="Join lines that the pane wrapped.")] = True
    preserve_trailing_spaces: Annotated[bool, Meta(description="Keep trailing spaces.")] = False
    include_escape_sequences: Annotated[bool, Meta(description="Keep colours and styles.")] = False
    escape_non_printable: Annotated[bool, Meta(description="Show control characters in octal.")] = False
    include_alternate_screen: Annotated[bool, Meta(description="Show the screen behind a full-screen program.")] = False
    delay: Annotated[str | int | None, Meta(description="Wait before looking: 500ms, 2s, or seconds.")] = None
    delay_ms: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="The delay in milliseconds; set only one of the two.")
    ] = None


class CapturePane:
    name: str = "capture-pane"
    tier: Tier = "read-only"
    source: Source = "sandbox"
    args: type[Struct] = CapturePaneArgs
    timeout: float | None = 660.0

    def __init__(self) -> None:
        self.description: str = text_of("capture_pane")

    async def intent(self, args: CapturePaneArgs, place: Place) -> Other:
        pane = await find_pane(place, args.target)
        return Other(
            title="look at a tmux pane" if pane.is_own else "look at another tmux pane",
            summary=name_of(pane),
            target=place.target.name,
            shown={"pane": name_of(pane), **facts_of(pane)},
            caution="" if pane.is_own else OTHER_PANE,
        )

    async def run(self, args: CapturePaneArgs, call: Call) -> Output:
        terminal = terminal_of(call.place)
        await asyncio.sleep(parse_delay(args.delay, args.delay_ms))
        request = Capture(
            target=(await terminal.find_pane(args.target)).pane_id,
            start=args.start,
            end=args.end,
            join_wrapped_lines=args.join_wrapped_lines,
            preserve_trailing_spaces=args.preserve_trailing_spaces,
            include_escape_sequences=args.include_escape_sequences,
            escape_non_printable=args.escape_non_printable,
            include_alternate_screen=args.include_alternate_screen,
        )
        text = (await terminal.capture(request)).rstrip("\n")
        return Output(text if len(text) <= SHOWN else f"[...]\n{text[-SHOWN:]}")


OTHER_PANE = "this is not the pane in which the session's commands run"


async def find_pane(place: Place, target: str | None) -> PaneInfo:
    """The pane that a call is about; without a terminal the call fails when it runs."""
    if has(place.target, Terminal):
        return await place.target.find_pane(target)
    return PaneInfo("", is_own=target is None, where=target or "")


def name_of(pane: PaneInfo) -> str:
    return "the shared pane" if pane.is_own else f"{pane.pane_id} ({pane.where})"


def facts_of(pane: PaneInfo) -> dict[str, str]:
    """What a person needs to recognise a pane that is not the session's own."""
    return {} if pane.is_own else {"paneCommand": pane.command, "paneTitle": pane.title}


def terminal_of(place: Place) -> Terminal:
    if has(place.target, Terminal):
        return place.target
    raise ToolError(f"{place.target.name} has no tmux pane; run_shell returns its output itself")
