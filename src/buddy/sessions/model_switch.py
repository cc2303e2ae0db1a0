"""Switching the model of a session."""

from buddy.backends.contract import ModelName
from buddy.errors import ProtocolError, UserError
from buddy.protocol.events import ModelSwitched
from buddy.protocol.requests import SwitchModel
from buddy.sessions.session import Session


async def switch_model(session: Session, request: SwitchModel, by: str) -> ModelName:
    """Use another model from the next run on."""
    session.runs.check_idle("switch model")
    before = session.backend.model()
    try:
        after = await session.backend.switch(request.profile, request.model)
    except UserError as error:
        raise ProtocolError("PROVIDER_NOT_CONFIGURED", str(error), detail=error.hint or None) from error
    session.journal.record(ModelSwitched(before=_names(before), after=_names(after), by=by))
    await session.commit(durable=True)
    return after


def _names(model: ModelName) -> dict[str, str]:
    return {"profile": model.profile, "model": model.model, "api": model.api}
