"""Maps Droid's permission requests to ours.

Invariants: Droid asks once for several calls and takes one answer for all, so it is approved only if each call was;
what our rules cannot express is asked as a separate tool, so that no rule about commands, files or addresses allows it
by accident.
"""

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from msgspec import Struct

from buddy.backends.droid.event_mapper import DroidCall
from buddy.backends.droid.wire import Confirmation
from buddy.backends.external.contract import Permission, PermissionAnswer
from buddy.protocol.codes import ApprovalKind
from buddy.tools.changes import diff

_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)


class PermissionSubject(Struct, frozen=True):
    """What would be done, in the terms of our rules."""

    kind: ApprovalKind
    command: str = ""
    path: str = ""
    url: str = ""


class CombinedAnswer:
    """Collects the decisions on one request and answers once, after the last."""

    def __init__(self, answer: Callable[[PermissionAnswer], Awaitable[None]]) -> None:
        self._answer = answer
        self._waiting = 0
        self._denials: list[str] = []
        self._approved = True

    def questions(self, call: DroidCall, asked: Confirmation) -> list[Permission]:
        details = _details(asked)
        questions = [
            Permission(
                call.call_id,
                call.name,
                subject.kind,
                self._reply,
                args=asked.tool_use.input,
                details=details,
                command=subject.command,
                path=subject.path,
                url=subject.url,
            )
            for subject in subjects(asked)
        ]
        self._waiting += len(questions)
        return questions

    async def _reply(self, decided: PermissionAnswer) -> None:
        self._waiting -= 1
        self._approved = self._approved and decided.approved
        if decided.reason:
            self._denials.append(decided.reason)
        if self._waiting == 0:
            await self._answer(PermissionAnswer(self._approved, "; ".join(self._denials)))


def subjects(asked: Confirmation) -> Iterator[PermissionSubject]:
    """Usually one; a patch has one for each file."""
    args, details = asked.tool_use.input, asked.details
    match asked.confirmation_type:
        case "exec" if isinstance(args.get("command"), str):
            yield PermissionSubject("exec", command=_text(details, "fullCommand") or str(args["command"]))
        case "exec" if _text(args, "url"):
            yield PermissionSubject("fetch", url=_text(args, "url"))
        case "edit" | "create" if path := _text(details, "filePath") or _text(args, "file_path"):
            yield PermissionSubject("write", path=path)
        case "apply_patch" if paths := _patched_paths(args):
            for path in paths:
                yield PermissionSubject("write", path=path)
        case _:
            yield PermissionSubject("tool")


def _details(asked: Confirmation) -> dict[str, Any]:
    """Everything Droid showed; old and new file contents become a diff."""
    details = {name: value for name, value in asked.details.items() if name not in ("oldContent", "newContent")}
    before, after = asked.details.get("oldContent"), asked.details.get("newContent", asked.details.get("content"))
    if isinstance(after, str):
        old = before.encode() if isinstance(before, str) else None
        details["diff"] = diff(_text(asked.details, "filePath"), old, after.encode())
        details.pop("content", None)
    return details


def _patched_paths(args: dict[str, Any]) -> list[str]:
    texts = [value for value in args.values() if isinstance(value, str)]
    return list(dict.fromkeys(path.strip() for text in texts for path in _PATCHED.findall(text)))


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
