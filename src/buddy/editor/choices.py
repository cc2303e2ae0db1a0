"""A question as a permission request, for editors without forms: one field with few values, or an address to visit.

Invariants: an option says what is answered; a request that is dismissed answers nothing in a person's name.
"""

from typing import Any

from msgspec import Struct

from buddy.editor.diffs import fenced, text_content
from buddy.editor.json_rpc import Json, is_object
from buddy.editor.tool_calls import CallView, clear, cut
from buddy.protocol.events import QuestionAsked
from buddy.protocol.forms import fields_of

MAX_CHOICES = 12
MAX_NAME = 60
MAX_TITLE = 1000
DECLINE = "decline"


class Choice(Struct, frozen=True):
    name: str
    answer: Json


def choices_of(question: QuestionAsked) -> list[Choice]:
    """The answers that can be chosen; none if the answer has to be written."""
    if question.mode == "url":
        return [Choice("I have visited it", {"action": "accept"})]
    fields = fields_of(question.schema)
    if len(fields) != 1:
        return []
    ((name, field),) = fields.items()
    values = _values(field)
    accepted = [Choice(shown, {"action": "accept", "content": {name: value}}) for shown, value in values]
    return accepted if len(accepted) <= MAX_CHOICES else []


def view_of_question(question: QuestionAsked, message: str) -> CallView:
    """The call that carries the request: editors show one."""
    text = f"{message}\n{question.url}" if question.url else message
    return CallView(
        call_id=question.question_id,
        title=cut(clear(message.partition("\n")[0]), MAX_TITLE),
        kind="other",
        raw_input={},
        locations=[],
        content=[text_content(fenced(clear(text)))],
    )


def choice_request(session_id: str, view: CallView, choices: list[Choice]) -> Json:
    options = [
        {"optionId": f"choice-{number}", "name": cut(clear(choice.name), MAX_NAME), "kind": "allow_once"}
        for number, choice in enumerate(choices)
    ]
    options.append({"optionId": DECLINE, "name": "Decline", "kind": "reject_once"})
    return {"sessionId": session_id, "toolCall": view.described(), "options": options}


def answer_of(answered: Json, choices: list[Choice]) -> Json:
    """The answer to the question, in the words of an elicitation."""
    outcome = answered.get("outcome")
    option = outcome.get("optionId") if is_object(outcome) and outcome.get("outcome") == "selected" else None
    if option == DECLINE:
        return {"action": "decline"}
    by_option = {f"choice-{number}": choice.answer for number, choice in enumerate(choices)}
    return by_option.get(option, {"action": "cancel"}) if isinstance(option, str) else {"action": "cancel"}


def _values(field: dict[str, Any]) -> list[tuple[str, object]]:
    """The values that a field may have, each with its name."""
    if field.get("type") == "boolean":
        title = str(field.get("title") or field.get("description") or "")
        return [(f"Yes: {title}" if title else "Yes", True), (f"No: {title}" if title else "No", False)]
    if field.get("type") != "string":
        return []
    titled: object = field.get("oneOf")
    if isinstance(titled, list):
        found: list[object] = [*titled]  # pyright: ignore[reportUnknownArgumentType] - from a server
        named = [one for one in found if is_object(one) and "const" in one]
        return [(str(one.get("title") or one["const"]), one["const"]) for one in named]
    values: object = field.get("enum")
    if not isinstance(values, list):
        return []
    known: list[object] = [*values]  # pyright: ignore[reportUnknownArgumentType] - from a server
    names: object = field.get("enumNames")
    shown: list[object] = [*names] if isinstance(names, list) and len(names) == len(known) else known  # pyright: ignore[reportUnknownArgumentType] - from a server
    return [(str(name), value) for name, value in zip(shown, known, strict=True)]
