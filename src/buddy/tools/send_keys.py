"""Sends keys to the shared tmux pane: to interrupt, answer or control a program that runs there.

Invariants: text is sent literally, never interpreted as keys; keys are names that tmux knows, or single
characters, never words or tmux commands; what they type, with what was typed before, is judged like a command.
"""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol import intents
from buddy.protocol.codes import Source, Tier
from buddy.protocol.typed_text import InputLine, press
from buddy.targets.contract import Keys, PaneInfo
from buddy.tools.capture_pane import OTHER_PANE, facts_of, find_pane, name_of, terminal_of
from buddy.tools.contract import SHARED, Call, Output, Place
from buddy.tools.delays import parse_delay
from buddy.tools.key_names import check_keys
from buddy.tools.texts import text_of

MAX_KEYS = 100
MAX_CHARACTERS = 16_384
UNKNOWN = InputLine(is_known=False)
"""Somebody else, or an earlier process, may have typed into a pane that the session has not used yet."""


class SendKeysArgs(Struct, frozen=True, forbid_unknown_fields=True):
    target: Annotated[str | None, Meta(description="Another pane, as %1 or session:window.pane.")] = None
    keys: Annotated[tuple[str, ...], Meta(description="Key names: C-c, Enter, Up, Escape.", max_length=MAX_KEYS)] = ()
    literal_text: Annotated[str | None, Meta(description="Text to type verbatim, before the keys.")] = None
    enter: Annotated[bool, Meta(description="Press Enter at the end.")] = False
    delay: Annotated[str | int | None, Meta(description="Wait before sending: 500ms, 2s, or seconds.")] = None
    delay_ms: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="The delay in milliseconds; set only one of the two.")
    ] = None


class SendKeys:
    name: str = "send-keys"
    tier: Tier = "privileged"
    source: Source = "sandbox"
    args: type[Struct] = SendKeysArgs
    timeout: float | None = 660.0

    def __init__(self) -> None:
        self.description: str = text_of("send_keys")

    async def intent(self, args: SendKeysArgs, place: Place) -> intents.Keys:
        if len(args.literal_text or "") > MAX_CHARACTERS:
            raise ToolError(f"literal_text is longer than {MAX_CHARACTERS} characters; use write_file for a long text")
        check_keys(args.keys)
        pane = await find_pane(place, args.target)
        pressed = _pressed(args)
        summary = " ".join((*((repr(args.literal_text),) if args.literal_text else ()), *pressed))
        return intents.Keys(
            title="send keys to a tmux pane" if pane.is_own else "send keys to another tmux pane",
            summary=summary,
            target=place.target.name,
            sandbox=place.sandbox,
            pane=name_of(pane),
            text=args.literal_text or "",
            keys=pressed,
            before=place.input_lines.get(_line_of(pane), UNKNOWN),
            shown=facts_of(pane),
            caution="" if pane.is_own else OTHER_PANE,
        )

    async def run(self, args: SendKeysArgs, call: Call) -> Output:
        if not (args.keys or args.literal_text or args.enter):
            raise ToolError("nothing to send; give keys, literal_text or enter")
        check_keys(args.keys)
        terminal = terminal_of(call.place)
        await asyncio.sleep(parse_delay(args.delay, args.delay_ms))
        pane, lines = await terminal.find_pane(args.target), call.place.input_lines
        # Before they are sent: if that fails, some of them may have arrived.
        before = lines.get(_line_of(pane), UNKNOWN)
        lines[_line_of(pane)] = press(before, args.literal_text or "", _pressed(args)).after
        await terminal.send_keys(Keys(pane.pane_id, args.keys, args.literal_text, args.enter))
        return Output("sent; use capture-pane to see the effect")


def _line_of(pane: PaneInfo) -> str:
    return SHARED if pane.is_own else pane.pane_id


def _pressed(args: SendKeysArgs) -> tuple[str, ...]:
    return (*args.keys, *(("Enter",) if args.enter else ()))
