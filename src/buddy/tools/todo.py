"""The to-do list of a session: replaced completely, or shown.

Invariant: the list is in the result, so it is in the log and in the model's context.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Other
from buddy.tools.contract import Call, Output, Place, Task
from buddy.tools.texts import text_of

MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class TodoItem(Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, Meta(description="What to do.", min_length=1, max_length=500)]
    status: Annotated[Literal["pending", "in_progress", "completed"], Meta(description="Its progress.")] = "pending"


class TodoArgs(Struct, frozen=True, forbid_unknown_fields=True):
    items: Annotated[
        Annotated[tuple[TodoItem, ...], Meta(max_length=100)] | None,
        Meta(description="The complete new list; omit it to see the current one."),
    ] = None


class Todo:
    name: str = "todo"
    tier: Tier = "read-only"
    source: Source = "unknown"
    args: type[Struct] = TodoArgs
    timeout: float | None = 10.0

    def __init__(self) -> None:
        self.description: str = text_of("todo")

    async def intent(self, args: TodoArgs, place: Place) -> Other:  # noqa: ARG002 - it is the session's own
        what = "show the list" if args.items is None else f"{len(args.items)} things to do"
        return Other(title="keep a to-do list", summary=what)

    async def run(self, args: TodoArgs, call: Call) -> Output:
        tasks = call.place.tasks
        if args.items is not None:
            tasks[:] = [Task(item.text, item.status) for item in args.items]
        lines = [f"{MARKS[task.status]} {' '.join(task.text.split())}" for task in tasks]
        return Output("\n".join(lines) or "the list is empty")
