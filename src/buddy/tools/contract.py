"""What a tool is: a name, a tier, typed arguments, the intent of a call, and running it.

Invariants: `intent` shows everything that will run and has no effect; approvals are decided outside the tool, from its
tier and its intent.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Literal, Protocol, TypeVar, runtime_checkable

from msgspec import Struct, field

from buddy.protocol.codes import Source, Tier
from buddy.protocol.intents import Intent
from buddy.protocol.question_events import PersonAnswer, PersonQuestion
from buddy.protocol.shapes import Attachment
from buddy.protocol.typed_text import InputLine
from buddy.targets.contract import Target

Args = TypeVar("Args", bound=Struct)
Args_contra = TypeVar("Args_contra", bound=Struct, contravariant=True)


class ToolImage(Struct, frozen=True):
    """An image that a tool found or made."""

    content: bytes
    name: str = ""


class Output(Struct, frozen=True):
    """The result of a call. `text` is complete; dispatch shortens it for the model and stores it as a blob. It stores
    `images`, too; `attachments` are those that are stored already."""

    text: str
    exit_code: int | None = None
    is_error: bool = False
    error_type: str = "UNKNOWN"
    images: tuple[ToolImage, ...] = ()
    attachments: tuple[Attachment, ...] = ()


class Task(Struct, frozen=True):
    """One item of a session's to-do list."""

    text: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class EditorFiles(Protocol):
    """What a person has open in an editor, by canonical path; nothing of it is sure to be answered."""

    @property
    def is_connected(self) -> bool:
        """Whether there is an editor to ask."""
        ...

    @property
    def is_writable(self) -> bool:
        """Whether the editor takes a new text for what it has open."""
        ...

    async def read(self, path: str, changed_ns: int) -> str | None:
        """The text that the editor shows; None if it has none, or if the file was changed after it was asked to look.
        `changed_ns` is when the file was last written."""
        ...

    async def write(self, path: str, content: str) -> bool:
        """Replace the text in the editor by what was just written; False if it did not."""
        ...

    def note_replaced(self, path: str, content: bytes) -> None:
        """This content was replaced on disk: an editor that still shows it has not noticed yet."""
        ...


def nothing_closed(_path: str) -> bool:
    return False


SHARED = ""


async def had_no_output(_output: str) -> bool:
    return False


class Place(Struct, frozen=True):
    """Where a session's calls work: the target, the workspace on it, and how commands are confined there.

    `is_closed` says whether a rule denies reading a canonical path: a tool that reads many files skips these. `seen`
    and `tasks` are what the session knows while it is open: the SHA-256 of each file as it last read or wrote it, by
    canonical path, and its to-do list. `outputs` are the stored outputs that results of the session named, including
    those from before it was opened; `had_output` looks for one that is older than what was read then. `input_lines` is
    what the session typed into panes and did not run yet, by the pane's id, or `SHARED` for its own.
    """

    target: Target
    root: str
    sandbox: str = "host"
    is_closed: Callable[[str], bool] = nothing_closed
    seen: dict[str, str] = field(default_factory=dict[str, str])
    tasks: list[Task] = field(default_factory=list[Task])
    outputs: set[str] = field(default_factory=set[str])
    input_lines: dict[str, InputLine] = field(default_factory=dict[str, InputLine])
    private: tuple[str, ...] = ()
    """Buddy's own directories, which no tool reads."""
    editor: EditorFiles | None = None
    had_output: Callable[[str], Awaitable[bool]] = had_no_output


async def nobody_asked(_question: PersonQuestion) -> PersonAnswer:
    return PersonAnswer("cancel")


class Call(Struct, frozen=True):
    """One running call: its place, its nonce, where its output goes meanwhile, and who allowed it.

    `path` is the real path that its intent names, if it names one. `outside` is the same if that is outside the
    workspace and was approved. `ask` asks the session's user for data.
    """

    call_id: str
    place: Place
    nonce: str
    on_output: Callable[[Literal["stdout", "stderr"], bytes], Awaitable[None]]
    by: str = ""
    outside: str = ""
    session_id: str = ""
    ask: Callable[[PersonQuestion], Awaitable[PersonAnswer]] = nobody_asked
    path: str = ""


class Tool(Protocol, Generic[Args_contra]):
    name: str
    tier: Tier
    source: Source
    description: str
    args: type[Struct]
    timeout: float | None

    async def intent(self, args: Args_contra, place: Place) -> Intent: ...

    async def run(self, args: Args_contra, call: Call) -> Output: ...


class DescribesArguments(ABC):
    """A tool whose arguments are described by a JSON Schema from elsewhere, and not by the fields of `args`."""

    parameters: dict[str, Any]
    is_deferred: bool
    """Whether it can be called but is left out of prompts, because it was not looked for yet."""

    @abstractmethod
    def read_arguments(self, given: dict[str, object]) -> Struct:
        """The arguments of a call as `intent` and `run` take them; ToolError says what is wrong with them."""


@runtime_checkable
class Resumable(Protocol):
    """A tool that may find what an interrupted call started; then `run` with the same call continues with it."""

    async def is_resumable(self, call: Call) -> bool: ...
