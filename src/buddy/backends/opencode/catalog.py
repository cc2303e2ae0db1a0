"""What OpenCode knows about models: their context windows, and whether they have a price."""

from msgspec import Struct

from buddy.backends.external import lenient
from buddy.backends.opencode.server import OpenCodeServer
from buddy.backends.opencode.wire import Json, read_object

ModelKey = tuple[str, str]
"""A provider and one of its models."""


class ModelFacts(Struct, frozen=True):
    context_limit: int | None
    is_priced: bool


class Catalog(Struct, frozen=True):
    """The models that can be used, and which ones may be used if none is named."""

    models: dict[ModelKey, ModelFacts]
    defaults: tuple[ModelKey, ...]

    def is_priced(self, model: ModelKey | None) -> bool:
        """Whether a run has a known cost, whichever model OpenCode chooses."""
        wanted = (model,) if model is not None else self.defaults
        found = [self.models.get(key) for key in wanted]
        return bool(found) and all(facts is not None and facts.is_priced for facts in found)


async def read_catalog(server: OpenCodeServer, directory: str) -> Catalog:
    """The catalog as OpenCode's server has it; ProviderError if it does not answer."""
    listed = read_object(await server.call("GET", "/config/providers", directory))
    config = read_object(await server.call("GET", "/config", directory))
    models: dict[ModelKey, ModelFacts] = {}
    for provider in lenient.mappings(listed.get("providers")):
        for name, model in lenient.mapping(provider.get("models")).items():
            models[lenient.text(provider.get("id")), name] = _facts(lenient.mapping(model))
    chosen, _, name = lenient.text(config.get("model")).partition("/")
    others = tuple((key, lenient.text(value)) for key, value in lenient.mapping(listed.get("default")).items())
    return Catalog(models, ((chosen, name),) if name else others)


def _facts(model: Json) -> ModelFacts:
    cost = lenient.mapping(model.get("cost"))
    prices = [cost.get(name) for name in ("input", "output")]
    limit = lenient.count(lenient.mapping(model.get("limit")).get("context"))
    # It writes 0 for a model without a price.
    return ModelFacts(limit or None, any(isinstance(price, int | float) and price > 0 for price in prices))
