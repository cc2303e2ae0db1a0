"""`/answer` and `/decline`: answer a question of a server or an agent."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from buddy.errors import BuddyError, UserError
from buddy.protocol.forms import read_answer
from buddy.protocol.question_requests import AnswerQuestion
from buddy.protocol.requests import AcceptedReply
from buddy.terminal.command_ui import CommandUI
from buddy.terminal.current_session import CurrentSession
from buddy.terminal.question_text import answer_form, schema_of

if TYPE_CHECKING:
    from buddy.protocol.json_events import QuestionAsked


async def answer(ui: CommandUI, typed: str) -> None:
    """Answer the question that was asked first."""
    await answer_question(ui.session, _first(ui.session), typed)


async def decline(ui: CommandUI, _: str) -> None:
    await close_question(ui.session, _first(ui.session), "decline")


async def answer_question(session: CurrentSession, asked: "QuestionAsked", typed: str) -> None:
    if asked["mode"] == "url":
        await close_question(session, asked, "accept")
        return
    try:
        found = read_answer(schema_of(asked), typed)
    except ValueError as error:
        raise UserError(str(error), hint=f"/answer {answer_form(asked)}") from error
    request = AnswerQuestion(asked["questionId"], "accept", found)
    await session.client.request(request, AcceptedReply, asked.get("sessionId") or session.session_id)


async def close_question(
    session: CurrentSession, asked: "QuestionAsked", action: Literal["accept", "decline", "cancel"]
) -> None:
    session_id = asked.get("sessionId") or session.session_id
    await session.client.request(AnswerQuestion(asked["questionId"], action), AcceptedReply, session_id)


async def ask_question(
    session: CurrentSession,
    question_id: str,
    next_line: Callable[[str], Awaitable[str]] | None,
    on_error: Callable[[BuddyError], None],
) -> None:
    """Ask the person, line by line, what a server wants to know; an empty line declines, and so does nobody."""
    asked = session.view.questions.get(question_id)
    while asked is not None:
        typed = (await next_line("answer (an empty line declines): ")).strip() if next_line is not None else ""
        try:
            if not typed:
                await close_question(session, asked, "decline")
            else:
                await answer_question(session, asked, typed)
        except UserError as error:
            on_error(error)
            continue
        except BuddyError as error:  # it was answered elsewhere
            on_error(error)
        return


def _first(session: CurrentSession) -> "QuestionAsked":
    found = next(iter(session.view.questions.values()), None)
    if found is None:
        raise UserError("no question is open")
    return found
