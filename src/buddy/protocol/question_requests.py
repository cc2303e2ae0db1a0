"""The request that answers a question."""

from typing import Any

from buddy.protocol.ids import QuestionId
from buddy.protocol.question_events import QuestionAction
from buddy.protocol.shapes import Shape


class AnswerQuestion(Shape, frozen=True):
    """`answer` has the fields of the form, with action `accept`. The first answer wins."""

    question_id: QuestionId
    action: QuestionAction
    answer: dict[str, Any] | None = None
