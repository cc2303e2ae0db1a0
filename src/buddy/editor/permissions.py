"""An approval as a permission request of an editor, and its answer as a decision.

Invariants: the request carries everything that will run; an answer that is no choice of a person denies, and the
comment tells the model which of the two it was.
"""

from collections.abc import Callable, Iterable

from buddy.editor.diffs import fenced, text_content
from buddy.editor.json_rpc import Json, is_object
from buddy.editor.tool_calls import CallView, clear, cut, show_change
from buddy.protocol.codes import Scope
from buddy.protocol.requests import SubmitApproval
from buddy.protocol.shapes import ApprovalRequest

MAX_TITLE = 1000
MAX_OPTION = 48
"""A longer name would push the diff off the screen of some editors; the content has the whole rule."""
ONCE, SESSION, ALWAYS, REJECT = "once", "session", "always", "reject"
_SCOPES: dict[str, Scope] = {ONCE: "once", SESSION: "session", ALWAYS: "always"}
_KINDS = {"exec": "execute", "write": "edit", "fetch": "fetch", "keys": "execute"}

DescribeApproval = Callable[[ApprovalRequest], "ApprovalLines"]


class ApprovalLines:
    """An approval in words: every line of it, and those that are not the diff."""

    def __init__(self, lines: Iterable[tuple[str, bool]], rule: str) -> None:
        """Each line with whether it belongs to the diff; `rule` is what "always" would add, in words."""
        self._lines = list(lines)
        self.rule = rule

    def text(self, *, with_diff: bool) -> str:
        return "\n".join(line for line, is_diff in self._lines if with_diff or not is_diff)


def view_of_approval(approval: ApprovalRequest, known: CallView | None, described: ApprovalLines) -> CallView:
    """The call with everything that is asked about it."""
    details = approval.details
    command, path, diff = details.get("command"), details.get("path"), details.get("diff")
    title = command if isinstance(command, str) else f"{approval.title}: {approval.summary}"
    title = f"sub-agent {approval.agent}: {title}" if approval.agent else title
    view = known or CallView(
        call_id=approval.approval_id if approval.agent else approval.call_id or approval.approval_id,
        title="",
        kind=_KINDS.get(approval.kind, "other"),
        raw_input=details,
        locations=[],
        content=[],
    )
    view.title = cut(clear(title), MAX_TITLE)
    has_diff = isinstance(path, str) and isinstance(diff, str) and bool(diff)
    if isinstance(path, str) and isinstance(diff, str) and diff:
        show_change(view, path, diff)
    view.content = [*view.content, text_content(fenced(described.text(with_diff=not has_diff)))]
    return view


def permission_request(session_id: str, view: CallView, rule: str) -> Json:
    options = [
        {"optionId": ONCE, "name": "Allow once", "kind": "allow_once"},
        {"optionId": SESSION, "name": "Allow for this session", "kind": "allow_always"},
    ]
    if rule:
        options.append({"optionId": ALWAYS, "name": cut(f"Always {rule}", MAX_OPTION), "kind": "allow_always"})
    options.append({"optionId": REJECT, "name": "Deny", "kind": "reject_once"})
    return {"sessionId": session_id, "toolCall": view.described(), "options": options}


def decision_of(answer: Json, approval: ApprovalRequest, session_id: str, run_id: str) -> SubmitApproval:
    outcome = answer.get("outcome")
    chosen: Json = outcome if is_object(outcome) else {}
    option = chosen.get("optionId") if chosen.get("outcome") == "selected" else None
    if isinstance(option, str) and option in _SCOPES:
        return SubmitApproval(session_id, run_id, approval.approval_id, "approve", scope=_SCOPES[option])
    comment = None if option == REJECT else "the question was dismissed in the editor, not answered"
    return SubmitApproval(session_id, run_id, approval.approval_id, "deny", comment)


def unasked(reason: str, approval: ApprovalRequest, session_id: str, run_id: str) -> SubmitApproval:
    """The decision if the editor cannot ask."""
    comment = f"nobody was asked: the editor could not show the question ({reason})"
    return SubmitApproval(session_id, run_id, approval.approval_id, "deny", comment)
