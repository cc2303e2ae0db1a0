"""The tools of one session, as of the current turn.

Invariant: the prompt of a turn and the calls that come of it see the same registry.
"""

from functools import lru_cache

import msgspec
from msgspec import Struct

from buddy.backends.contract import Run
from buddy.models.contract import ToolSpec
from buddy.protocol.events import ApprovalPolicyChanged, EventBody, SessionStarted, WarningRaised
from buddy.tools.registry import Registry
from buddy.tools.source import REMEMBERED, ToolScope, ToolSource


class Catalog(Struct, frozen=True):
    """The tools of a turn, as dispatch needs them and as the model sees them; `text` is `specs` as JSON."""

    registry: Registry
    specs: tuple[ToolSpec, ...]
    text: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(spec.name for spec in self.specs)


@lru_cache(REMEMBERED)
def catalog_of(registry: Registry) -> Catalog:
    """The same object for the same registry, so that an unchanged prompt stays unchanged to the byte."""
    specs = tuple(ToolSpec(spec.name, spec.description, spec.parameters) for spec in registry.specs())
    return Catalog(registry, specs, msgspec.json.encode(specs).decode())


@lru_cache(REMEMBERED)
def _for_planning(registry: Registry) -> Registry:
    return registry.for_planning()


class SessionTools:
    """In plan mode, only those tools that change nothing, and sub-agents."""

    observed = frozenset({SessionStarted, ApprovalPolicyChanged})

    def __init__(self, source: ToolSource) -> None:
        self._source = source
        self._catalog: Catalog | None = None
        self._is_planning = False

    @property
    def names(self) -> tuple[str, ...]:
        return self._catalog.names if self._catalog is not None else ()

    def observe(self, body: EventBody) -> None:
        """Follow the session into plan mode and out of it."""
        if type(body) is SessionStarted:
            self._is_planning = bool(body.options and body.options.plan)
        elif type(body) is ApprovalPolicyChanged and body.plan is not None:
            self._is_planning = body.plan

    async def refresh(self, run: Run) -> Catalog:
        """The tools of the next turn."""

        def warn(code: str, message: str, detail: str | None) -> None:
            run.emit(WarningRaised(code=code, message=message, detail=detail))

        registry = await self._source.tools(ToolScope(run.session_id, run.place, warn, run.run_id))
        self._catalog = catalog_of(_for_planning(registry) if self._is_planning else registry)
        return self._catalog

    async def current(self, run: Run) -> Catalog:
        """The tools of this turn, or those available now if another process started it."""
        return self._catalog or await self.refresh(run)
