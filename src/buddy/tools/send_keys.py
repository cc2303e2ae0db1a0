"""Sends keys to the shared tmux pane: to interrupt, answer or control a program that runs there.

Invariants: text is sent literally, never interpreted as keys; keys are names that tmux knows, never tmux commands.
"""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from buddy.errors import ToolError
from buddy.protocol import intents
from buddy.protocol.codes import Source, Tier
from buddy.targets.contract import Keys
from buddy.tools.capture_pane import terminal_of
from buddy.tools.contract import Call, Output, Place
from buddy.tools.delays import parse_delay
from buddy.tools.texts import text_of

MAX_KEYS = 100


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
        pressed = [*args.keys, *(["Enter"] if args.enter else [])]
        summary = " ".join(([repr(args.literal_text)] if args.literal_text else []) + pressed)
        return intents.Keys(
            title="send keys to a tmux pane",
            summary=summary,
            target=place.target.name,
            sandbox=place.sandbox,
            pane=args.target or "the shared pane",
            text=args.literal_text or "",
            keys=tuple(pressed),
        )

    async def run(self, args: SendKeysArgs, call: Call) -> Output:
        if not (args.keys or args.literal_text or args.enter):
            raise ToolError("nothing to send; give keys, literal_text or enter")
        terminal = terminal_of(call.place)
        await asyncio.sleep(parse_delay(args.delay, args.delay_ms))
        await terminal.send_keys(Keys(args.target, args.keys, args.literal_text, args.enter))
        return Output("sent; use capture-pane to see the effect")
