"""What a tool call would do, typed: the facts that rules and policies decide on.

Invariant: everything an approval shows comes from `details`, and a decision is bound to exactly that; nothing reads
facts back out of it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import Struct

from buddy.protocol.codes import ApprovalKind
from buddy.protocol.typed_text import InputLine, Typed, press

# The levels that are proven before anything runs in them.
SANDBOXES = ("confined", "container")


class AgentTool(Struct, frozen=True):
    """The tool of another agent that an intent is about; `shown` is what the agent itself said of the call."""

    agent: str
    name: str
    args: dict[str, Any]
    cwd: str
    shown: dict[str, Any] = {}

    def details(self) -> dict[str, Any]:
        return {**self.shown, "agent": self.agent, "agentTool": self.name, "args": self.args, "cwd": self.cwd}


class _Intent(Struct, frozen=True, kw_only=True):
    """`title` and `summary` are for people. `target` and `sandbox` are None if the effect is not on a target.

    `caution` says why a rule does not allow it, and why it is asked about even if it only reads.
    """

    title: str
    summary: str
    target: str | None = None
    sandbox: str | None = None
    agent: AgentTool | None = None
    caution: str = ""

    @property
    def details(self) -> dict[str, Any]:
        """The `details` of `approval_required`."""
        shown = self.agent.details() if self.agent is not None else {}
        if self.target is not None:
            shown["target"] = self.target
        if self.sandbox is not None:
            shown["sandbox"] = self.sandbox
        return {**shown, **self._facts()}

    def _facts(self) -> dict[str, Any]:
        raise NotImplementedError


class Exec(_Intent, frozen=True, kw_only=True):
    """Runs a command. `network` is None if it is not known to be without: nothing confines it, or a container has it.

    `outside` is true for a command that leaves the sandbox of its session.
    `scripts` are the digests of the files it would run, by path; `scripts_complete` is false if it may run more.
    `strays` says why what it writes is not where its words say, for rules with wildcards.
    """

    kind: ClassVar[ApprovalKind] = "exec"

    command: str
    cwd: str
    wait: bool | int | str | None = None
    scripts: dict[str, str] = {}
    scripts_complete: bool = True
    script_texts: dict[str, str] = {}
    network: bool | None = None
    outside: bool = False
    strays: str = ""

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"command": self.command, "cwd": self.cwd}
        if self.agent is None:
            facts |= {"environment": {}, "wait": self.wait}
        facts |= {"scripts": self.scripts, "scriptsComplete": self.scripts_complete}
        if self.script_texts:
            facts["scriptTexts"] = self.script_texts
        if self.network is not None:
            facts["network"] = "on" if self.network else "off"
        if self.outside:
            facts["outsideSandbox"] = True
        return facts


class FileChange(Struct, frozen=True):
    """The new content of a file by size and hash, and the hash of the one it replaces."""

    size: int
    sha256: str
    replaces: str | None
    diff: str

    def details(self) -> dict[str, Any]:
        return {
            "exists": self.replaces is not None,
            "bytes": self.size,
            "sha256": self.sha256,
            "replaces": self.replaces,
            "diff": self.diff,
        }


class Write(_Intent, frozen=True, kw_only=True):
    """Changes a file, by its canonical path. A `protected` one can make programs run, or loosen these very rules."""

    kind: ClassVar[ApprovalKind] = "write"

    path: str
    protected: bool
    change: FileChange | None = None

    def _facts(self) -> dict[str, Any]:
        change = self.change.details() if self.change is not None else {}
        return {"path": self.path, **change, "protected": self.protected}


class Fetch(_Intent, frozen=True, kw_only=True):
    """Sends something to a host: the request for a `url`, or a search `query`."""

    kind: ClassVar[ApprovalKind] = "fetch"

    host: str
    url: str | None = None
    query: str | None = None
    method: str | None = None

    def _facts(self) -> dict[str, Any]:
        named = {"url": self.url, "query": self.query, "host": self.host, "method": self.method}
        return {name: value for name, value in named.items() if value is not None}


class Keys(_Intent, frozen=True, kw_only=True):
    """Types `text` and then presses `keys` in a terminal pane, whose input line has `before` in it."""

    kind: ClassVar[ApprovalKind] = "keys"

    pane: str
    text: str
    keys: tuple[str, ...]
    before: InputLine = InputLine()
    shown: dict[str, Any] = {}

    def _facts(self) -> dict[str, Any]:
        facts = {"pane": self.pane, **self.shown, "text": self.text, "keys": list(self.keys)}
        line = self.typed.text if self.before.text else None
        return {**facts, "line": line} if line else facts

    @property
    def typed(self) -> Typed:
        """What the program in the pane receives, with what was typed before."""
        return press(self.before, self.text, self.keys)


class Other(_Intent, frozen=True, kw_only=True):
    """Anything else. `path` is the file or directory it is about; `shown` is whatever else a person should see.

    Two facts are only known of recorded calls that nobody was asked about: `opens_sandbox` is true for a confined
    command that gets network or leaves the sandbox, `is_contained` for a call that stays inside it.
    """

    kind: ApprovalKind = "tool"
    path: str | None = None
    shown: dict[str, Any] = {}
    opens_sandbox: bool = False
    is_contained: bool = False
    is_outside: bool = False
    """Whether it reads `path` outside the workspace."""
    follows_plan: bool = False
    """Whether what it starts only reads while the session is in plan mode: a sub-agent of our own does."""
    definition: str = ""
    """What the tool of a server is, as a digest that changes with its description and with the server."""

    def _facts(self) -> dict[str, Any]:
        return self.shown if self.path is None else {"path": self.path, **self.shown}


Intent = Exec | Write | Fetch | Keys | Other


def opens_sandbox(intent: Intent) -> bool:
    """Whether this is a confined command that gets network, or runs outside the sandbox."""
    match intent:
        case Exec():
            return bool(intent.network) or intent.outside
        case Other():
            return intent.opens_sandbox
        case Write() | Fetch() | Keys():
            return False


def stays_inside(intent: Intent) -> bool:
    """Whether a call can have no effect outside the sandbox: nothing is sent, and only the workspace can change.

    Another agent's call never does: the agent itself runs outside the sandbox.
    """
    if intent.agent is not None:
        return False
    match intent:
        case Exec():
            return intent.sandbox in SANDBOXES and intent.network is False
        case Write():
            return intent.sandbox in SANDBOXES and not intent.protected
        case Other():
            return intent.is_contained
        case Fetch() | Keys():
            return False


def recorded_intent(kind: str, title: str, summary: str, details: Mapping[str, Any]) -> Other:
    """The intent of a recorded approval, for a replay, in which rules are not applied again."""
    kinds: dict[str, ApprovalKind] = {"exec": "exec", "write": "write", "fetch": "fetch", "keys": "keys"}
    return Other(kind=kinds.get(kind, "tool"), title=title, summary=summary, shown=dict(details))
