"""Continues with a command that outlived the process that started it.

Invariants: nothing is started here; a command that is not found gets no result here.
"""

import codecs
from typing import Literal

from buddy.backends.contract import Run
from buddy.capabilities import has
from buddy.protocol.events import Recovery
from buddy.steps import take_turns
from buddy.targets.contract import Reattachable
from buddy.tools.contract import Output
from buddy.tools.output_buffer import OutputBuffer
from buddy.tools.run_shell import command_result


async def reattach(run: Run, call_id: str, nonce: str) -> Output | None:
    """Wait for the command of a call if it still runs; None if the target has no such command."""
    target = run.place.target
    if not has(target, Reattachable):
        return None
    output = OutputBuffer()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    async def on_output(stream: Literal["stdout", "stderr"], chunk: bytes) -> None:
        output.add(stream, chunk)
        await run.stream_output(call_id, stream, decoder.decode(chunk))

    finished = await target.reattach(nonce, on_output)
    if finished is None:
        return None
    run.emit(Recovery(action="reattached", call_id=call_id))
    return await take_turns(command_result(finished, output))
