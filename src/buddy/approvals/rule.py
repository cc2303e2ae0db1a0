"""A permission rule as it is written, and what rules judge."""

import hashlib
from typing import Literal

import msgspec
from msgspec import Struct

from buddy.approvals.globs import is_wild
from buddy.approvals.questions import RuleDecision


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[permissions.rules]]`. Every key that is set must match; `argv` has one glob per word.

    A command is allowed in `cwd` alone, which is the root of the workspace unless it is set. `scripts` are the files
    that it ran when the rule was made, each with its digest; it is allowed while they are the same. So is the tool of
    a server while its `definition` is.
    """

    decision: RuleDecision
    tool: str | None = None
    argv: tuple[str, ...] | None = None
    path: str | None = None
    host: str | None = None
    sandbox: Literal["host", "confined", "container"] | None = None
    target: str | None = None
    workspace: str | None = None
    network: bool | None = None
    cwd: str | None = None
    scripts: tuple[str, ...] | None = None
    definition: str | None = None

    def __post_init__(self) -> None:
        if self.argv is not None and not self.argv:
            raise ValueError("argv is empty; name at least the program, or omit it")
        if self.cwd is not None and is_wild(self.cwd):
            raise ValueError("cwd has a wildcard; name one directory, relative to the workspace")

    @property
    def rule_id(self) -> str:
        """The same for equal rules, wherever they are written."""
        return hashlib.sha256(msgspec.json.encode(self.as_table(), order="sorted")).hexdigest()[:8]

    def as_table(self) -> dict[str, object]:
        """The rule as it is written in a file."""
        return {key: value for key, value in msgspec.to_builtins(self).items() if value is not None}

    @property
    def is_literal(self) -> bool:
        """Whether its words match exactly one command."""
        return self.argv is not None and not any(map(is_wild, self.argv))

    def describe(self) -> str:
        parts = [f"tool {self.tool}"] if self.tool else []
        parts += [" ".join(self.argv)] if self.argv else []
        named = (("path", self.path), ("host", self.host), ("target", self.target), ("workspace", self.workspace))
        parts += [f"{name} {value}" for name, value in (*named, ("cwd", self.cwd)) if value]
        files = [line.partition("  ")[2] for line in self.scripts or ()]
        parts += [f"while unchanged: {' '.join(files)}"] if files else []
        parts += ["with any arguments, while its definition is unchanged"] if self.definition else []
        parts += [f"{'with' if self.network else 'without'} network"] if self.network is not None else []
        return f"{self.decision} {', '.join(parts) or 'everything'}"


class Subject(Struct, frozen=True):
    """What rules judge: a call of a tool, and the command, path or host it is about.

    `scripts` are the files that the command runs, written as in a rule. `outside`: it would leave a sandbox. `strays`:
    why what it writes is not where its words say.
    """

    tool: str
    command: str | None = None
    path: str | None = None
    host: str | None = None
    sandbox: str = "host"
    target: str = "local"
    workspace: str = ""
    cwd: str = "."
    network: bool = False
    outside: bool = False
    strays: str = ""
    scripts: tuple[str, ...] = ()
    definition: str = ""
    """A digest of what a server's tool is; empty for other tools."""
