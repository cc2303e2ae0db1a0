"""The model of one session: resolved with its client's environment and the configuration as it is now.

Invariants: what a client's environment says is recorded without its keys; a run that was recovered without the key it
needs says so and waits for a client that has it; choosing a model never sends a key to a server it is not for.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from msgspec.structs import replace

from buddy.backends.choose import NATIVE
from buddy.backends.contract import Run
from buddy.config.resolve import Resolved, resolve_profile
from buddy.config.server_address import password_in, without_credentials
from buddy.config.settings import Config
from buddy.daemon.client_keys import ClientKeys
from buddy.daemon.configuration import Configuration
from buddy.errors import UserError
from buddy.models.contract import Provider
from buddy.protocol.events import SessionStarted, WarningRaised
from buddy.protocol.requests import StartSession
from buddy.protocol.shapes import Endpoint, ModelInUse, SessionOptions

if TYPE_CHECKING:
    from buddy.models.listing import Listing


class SessionModels:
    """Resolves the models of all sessions."""

    def __init__(
        self,
        configuration: Configuration,
        keys: ClientKeys,
        make: Callable[[Resolved], Provider],
        list_models: "Callable[[Resolved], Awaitable[Listing]]",
    ) -> None:
        self.keys = keys
        self._configuration = configuration
        self._make = make
        self._list = list_models

    def settle(self, started: SessionStarted) -> tuple[SessionStarted, tuple[WarningRaised, ...]]:
        """The start as it may be recorded, and a warning where client and runtime see different models."""
        endpoint, options = _endpoint_of(started), started.options
        if endpoint is None or options is None:
            return started, ()
        config = self._configuration.current
        recorded, session_id, named = self.keys.take(started.session_id, endpoint), started.session_id, _named(started)
        if options.agent_runtime not in (None, NATIVE):
            return _with_endpoint(started, recorded), ()
        theirs = _try(config, self.keys.environment(session_id, recorded), named)
        ours = _try(config, self.keys.environment(session_id, None), named)
        if theirs is None and ours is not None and not (endpoint.base_url or endpoint.model):
            text = f"this shell names no model; using that of the daemon's environment: {ours.describe()}"
            note = WarningRaised(code="ENDPOINT_OF_DAEMON", message=text)
            return _with_endpoint(started, None), (note,)
        keyless = _try(config, self.keys.environment(session_id, recorded, with_keys=False), named)
        is_keyed = theirs is not None and theirs.api_key != (keyless.api_key if keyless else "")
        recorded = replace(recorded, keyed=is_keyed or bool(password_in(endpoint.base_url or "")))
        return _with_endpoint(started, recorded), _differences(theirs, ours)

    async def name_model(self, request: StartSession) -> StartSession:
        """If a server is named without a model: the only one that it offers; UserError if there is not just one."""
        options = request.options or SessionOptions()
        endpoint = options.endpoint
        if endpoint is not None:
            self.keys.register(endpoint)
        if options.agent_runtime not in (None, NATIVE) or options.model:
            return request
        env = self.keys.environment("", endpoint)
        resolved = _try(self._configuration.current, env, (_profile_of(request.provider, options), None))
        if resolved is None or resolved.model or resolved.api == "scripted":
            return request
        from buddy.models.only_model import find_only_model

        only = await find_only_model(resolved, self._list)
        named = replace(endpoint, model=only) if endpoint is not None else None
        model = options.model if endpoint is not None else f"{resolved.profile}/{only}"
        return replace(request, options=replace(options, endpoint=named, model=model))

    def of(self, started: SessionStarted) -> "SessionModel":
        return SessionModel(self, started.session_id, _endpoint_of(started), _named(started))

    def resolve(self, session: "SessionModel", profile: str | None, model: str | None) -> Resolved:
        env = self.keys.environment(session.session_id, session.endpoint)
        return resolve_profile(self._configuration.current, env, profile, model)

    def provider(self, resolved: Resolved) -> Provider:
        self.keys.hide(resolved.api_key)
        return self._make(resolved)


class SessionModel:
    """Chooses one session's provider."""

    def __init__(
        self,
        models: SessionModels,
        session_id: str,
        endpoint: Endpoint | None,
        named: tuple[str | None, str | None],
    ) -> None:
        self.session_id = session_id
        self.endpoint = endpoint
        self.named = self.chosen = named
        self.in_use = ModelInUse("", "", "")
        self.missing_key = ""
        """The variable of a key that no client has sent; empty if nothing is missing."""
        self._models = models
        self._resolved: Resolved | None = None

    def choose(self, profile: str | None, model: str | None) -> Provider:
        resolved = self._models.resolve(self, profile, model)
        self.chosen = profile, model
        self.missing_key = self._missing(resolved, profile)
        if not self.missing_key:
            resolved.check_key()
        provider = self._models.provider(resolved)
        self._resolved = resolved
        self.in_use = ModelInUse(provider.profile, provider.model, provider.api, without_credentials(resolved.base_url))
        return provider

    def _missing(self, resolved: Resolved, profile: str | None) -> str:
        """The variable of the client's missing key. No other stands in for it, least of all on its server."""
        endpoint, keys = self.endpoint, self._models.keys
        if endpoint is None or not endpoint.keyed:
            return ""
        is_own = resolved.base_url == endpoint.base_url
        if is_own and keys.has_address(self.session_id, endpoint):
            return ""
        is_theirs = is_own or profile in (None, self.named[0])
        if resolved.api_key and (not is_theirs or keys.has_key(self.session_id, endpoint)):
            return ""
        return resolved.unset_variable or ("BUDDY_API_KEY" if is_theirs else "")

    def would_be(self, endpoint: Endpoint | None) -> Resolved | None:
        """What a session that was started like this one, but with this endpoint, would use."""
        other = SessionModel(self._models, self.session_id, endpoint, self.named)
        try:
            return self._models.resolve(other, *self.named)
        except UserError:
            return None

    def has_newer_key(self) -> bool:
        """Whether the provider was made with another key than the one that there is now."""
        try:
            return self._resolved is None or self._models.resolve(self, *self.chosen).api_key != self._resolved.api_key
        except UserError:
            return False

    async def wait_for_key(self, run: Run) -> None:
        """Wait until a client has sent a key."""
        message = (
            f"this run needs the API key that its session was started with ({self.missing_key}), which is never "
            "stored; it continues when a client that has the key attaches"
        )
        detail = f"set {self.missing_key}, then: buddy resume {self.session_id}"
        run.emit(WarningRaised(code="CREDENTIALS_NEEDED", message=message, detail=detail))
        await run.commit()
        await self._models.keys.wait_changed(self.session_id)


@runtime_checkable
class AgentWithModel(Protocol):
    """A backend whose model is its session's: Buddy's own agent."""

    session_model: SessionModel

    async def choose_again(self, chosen: tuple[str | None, str | None] | None = None) -> None: ...

    async def renew_key(self) -> None: ...


def _endpoint_of(started: SessionStarted) -> Endpoint | None:
    return started.options.endpoint if started.options else None


def _with_endpoint(started: SessionStarted, endpoint: Endpoint | None) -> SessionStarted:
    return replace(started, options=replace(started.options or SessionOptions(), endpoint=endpoint))


def _named(started: SessionStarted) -> tuple[str | None, str | None]:
    """The profile and the model that the session was started with by name."""
    options = started.options or SessionOptions()
    return _profile_of(started.provider, options), options.model


def _profile_of(provider: str, options: SessionOptions) -> str | None:
    return options.profile or (None if provider == "default" else provider)


def _try(config: Config, env: Mapping[str, str], named: tuple[str | None, str | None]) -> Resolved | None:
    """None if there is no such model; the caller that needs it reports why."""
    try:
        return resolve_profile(config, env, *named)
    except UserError:
        return None


def _differences(theirs: Resolved | None, ours: Resolved | None) -> tuple[WarningRaised, ...]:
    if theirs is None or ours is None or (theirs.base_url, theirs.model) == (ours.base_url, ours.model):
        return ()
    text = f"using {theirs.describe()}, as this client says; the daemon's own environment names {ours.describe()}"
    return (WarningRaised(code="ENDPOINT_DIFFERS", message=text),)
