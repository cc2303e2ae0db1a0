"""Builds the memory: its index, the log it reads, and its embedder."""

import logging
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import apsw

from buddy.config.resolve import resolve_profile
from buddy.config.settings import Config
from buddy.errors import BuddyError, UserError
from buddy.log.contract import Log
from buddy.memory.embedders import Embedder, find_local
from buddy.memory.hybrid import Weights
from buddy.memory.memory import Memory
from buddy.protocol.envelopes import Event
from buddy.protocol.events import EventBody
from buddy.sessions.spill import restore_spilled

log = logging.getLogger("buddy.memory")


def make_memory(
    config: Config, env: Mapping[str, str], state_dir: Path, store: Log, *, is_shared: bool = False
) -> Memory | None:
    """The memory of this state directory; None if it is turned off. Nothing is opened before the first use."""
    settings = config.memory
    if not settings.enabled:
        return None

    async def read(blob: str) -> bytes | None:
        found = await store.read_blob(blob)
        return found[0] if found else None

    async def read_body(event: Event) -> EventBody | None:
        return await restore_spilled(event, read)

    return Memory(
        state_dir,
        store,
        read_body,
        embedder=lambda: find_embedder(config, env),
        weights=Weights(settings.vector_weight, settings.text_weight),
        top_k=settings.top_k,
        is_shared=is_shared,
    )


def find_embedder(config: Config, env: Mapping[str, str]) -> Embedder | None:
    """The configured embedder, if it is available; without one, search is by words alone."""
    settings = config.memory
    if settings.embeddings == "none":
        return None
    if settings.embeddings == "local":
        return find_local()
    if find_spec("numpy") is None:
        log.warning("embeddings from %s need numpy: pip install '.[memory]' in Buddy's clone", settings.embeddings)
        return None
    from buddy.memory.remote import RemoteEmbedder

    try:
        resolved = resolve_profile(config, env, settings.embeddings)
    except UserError as error:
        log.warning("no embeddings from %s: %s", settings.embeddings, error)
        return None
    return RemoteEmbedder(resolved.base_url, resolved.api_key, settings.embedding_model)


async def forget_in_memory(memory: Memory, session_id: str) -> None:
    """For a session that was deleted, and is gone all the same if this fails."""
    try:
        await memory.forget_session(session_id)
    except (BuddyError, OSError, apsw.Error) as error:
        log.warning("%s was deleted, but its entries in memory could not be removed: %s", session_id, error)
