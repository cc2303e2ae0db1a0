"""What becomes of the endpoint that a client offers when it attaches to a session.

Invariants: a key is taken for the server it is for; a run keeps the model it started with; where the client's
environment names another model than before, an idle session switches to it and records that.
"""

from msgspec.structs import replace

from buddy.capabilities import has
from buddy.config.resolve import Resolved
from buddy.config.server_address import password_in, without_credentials
from buddy.daemon.session_model import AgentWithModel
from buddy.errors import ProtocolError, UserError
from buddy.protocol.events import ModelSwitched, WarningRaised
from buddy.protocol.shapes import Endpoint, ModelInUse
from buddy.sessions.session import Session


async def adopt(session: Session, offered: Endpoint, recorded: Endpoint, by: str) -> None:
    """Use what is offered; `recorded` is the same without its keys."""
    agent = session.backend
    if not has(agent, AgentWithModel):
        return
    before, after = agent.session_model.would_be(agent.session_model.endpoint), agent.session_model.would_be(recorded)
    names_endpoint = bool(offered.base_url or offered.model or offered.api or offered.context_limit)
    if not names_endpoint or before is None or after is None or _same(before, after):
        await renew_key(session)
        return
    if session.runs.is_busy:
        message = f"the run continues with {before.describe()}; this client's environment names {after.describe()}"
        session.journal.record(WarningRaised(code="ENDPOINT_DIFFERS", message=message))
        await session.commit()
        return
    has_key = bool(after.api_key) or bool(password_in(offered.base_url or ""))
    await _switch(session, agent, replace(recorded, keyed=has_key), by)


async def _switch(session: Session, agent: AgentWithModel, endpoint: Endpoint, by: str) -> None:
    model, previous = agent.session_model, agent.session_model.endpoint
    before = _names(agent)
    model.endpoint = endpoint
    try:
        await agent.choose_again(model.named)
    except UserError as error:
        model.endpoint = previous
        message = f"this client's environment cannot be used: {error}"
        session.journal.record(WarningRaised(code="ENDPOINT_DIFFERS", message=message, detail=error.hint or None))
    else:
        session.journal.record(ModelSwitched(before=before, after=_names(agent), by=by, endpoint=endpoint))
    await session.commit(durable=True)


def model_in_use(session: Session) -> ModelInUse:
    """The session's model; of other agents' models, the server is unknown."""
    agent = session.backend
    if has(agent, AgentWithModel):
        return agent.session_model.in_use
    model = agent.model()
    return ModelInUse(model.profile, model.model, model.api)


async def renew_key(session: Session) -> None:
    """Use the key that is there now, unless a run is active."""
    if has(session.backend, AgentWithModel) and not session.runs.is_busy:
        await session.backend.renew_key()


def check_key(session: Session) -> None:
    """Refuse a message to a model whose key no client has sent since the runtime was started."""
    agent = session.backend
    missing = agent.session_model.missing_key if has(agent, AgentWithModel) else ""
    if missing:
        raise ProtocolError(
            "PROVIDER_NOT_CONFIGURED",
            f"{missing} is not set, and the session was started with a key from there, which is never stored",
            detail=f"set {missing} and try again; it is sent when a client attaches",
        )


def _same(one: Resolved, other: Resolved) -> bool:
    def facts(resolved: Resolved) -> tuple[object, ...]:
        server = without_credentials(resolved.base_url) or resolved.base_url
        return resolved.profile, server, resolved.model, resolved.api, resolved.context_limit

    return facts(one) == facts(other)


def _names(agent: AgentWithModel) -> dict[str, str]:
    used = agent.session_model.in_use
    names = {"profile": used.profile, "model": used.model, "api": used.api, "baseUrl": used.base_url}
    return {name: value for name, value in names.items() if value}
