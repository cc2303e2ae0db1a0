"""`buddy model list`: the profiles, their models, and what their servers offer.

Invariants: all servers are asked concurrently, for at most three seconds; one that does not answer is marked in its
line and does not fail the command; no key or token is shown.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from buddy.cli.options import Options
from buddy.cli.settings import places_of, read_config
from buddy.config.resolve import (
    LOCAL,
    NothingConfigured,
    Resolved,
    has_local,
    profile_names,
    resolve_profile,
)
from buddy.config.server_address import without_credentials
from buddy.config.settings import LOCAL_URL, Config
from buddy.errors import UserError
from buddy.models.catalog import Facts, Prices, configured_facts, known_offline
from buddy.models.credentials import ApiKey, Credentials
from buddy.models.listing import Listing, list_models
from buddy.models.login.bearer import Login
from buddy.models.login.issuer import find_issuer
from buddy.models.login.tokens import AuthFile
from buddy.terminal.escape import escape, escape_json
from buddy.terminal.style import Style, style_of

SHOWN = 5


class ModelRow(Struct, frozen=True, rename="camel", kw_only=True):
    """One profile. `models` is what its server lists; `trouble` says why it lists nothing."""

    profile: str
    active: bool
    api: str = ""
    model: str = ""
    auth: str = ""
    server: str = ""
    context_window: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    models: tuple[str, ...] = ()
    trouble: str = ""
    where: str = ""


def list_profiles(options: Options) -> int:
    config = read_config(options)
    rows = asyncio.run(_rows(config, places_of(options).config_dir / "auth.json"))
    if options.json:
        text = msgspec.json.encode({"models": rows}).decode()
        print(escape_json(text) if sys.stdout.isatty() else text)
        return 0
    _print(rows, style_of(sys.stdout, os.environ))
    if has_local() and LOCAL in config.models:
        print(f"[models.{LOCAL}] replaces the built-in model of that name; rename it to use both", file=sys.stderr)
    if not any(row.active for row in rows):
        print("no model is configured; 'buddy doctor' says how", file=sys.stderr)
    return 0


def find_prices(resolved: Resolved, auth_file: Path) -> Prices | None:
    """What the model costs, if that is known."""
    if resolved.api == "scripted":
        return configured_facts(resolved).prices
    known = known_offline(resolved).prices
    if known is not None or resolved.auth == "login":
        return known
    return asyncio.run(_ask(resolved, auth_file)).facts(resolved.model).prices


def credentials_of(resolved: Resolved, auth_file: Path) -> Credentials:
    if resolved.auth == "api-key":
        return ApiKey(resolved.api_key, resolved.api)
    return Login(resolved.profile, find_issuer(resolved.issuer, resolved.client_id), AuthFile(auth_file))


async def _rows(config: Config, auth_file: Path) -> list[ModelRow]:
    try:
        active = resolve_profile(config, os.environ)
    except NothingConfigured:
        active = None
    return await asyncio.gather(*(_row(config, name, active, auth_file) for name in profile_names(config, os.environ)))


async def _row(config: Config, name: str, active: Resolved | None, auth_file: Path) -> ModelRow:
    is_active = active is not None and active.profile == name
    try:
        resolved = active if active is not None and is_active else resolve_profile(config, os.environ, name)
        if resolved.api == "scripted" or resolved.base_url == LOCAL_URL:
            return _local_row(resolved, active=is_active)
        listing = await _ask(resolved, auth_file)
    except UserError as error:
        return ModelRow(profile=name, active=is_active, trouble=str(error))
    facts = _facts(resolved, listing)
    return ModelRow(
        profile=name,
        active=is_active,
        api=resolved.api,
        model=resolved.model,
        auth=resolved.auth,
        server=without_credentials(resolved.base_url),
        context_window=facts.context_window,
        input_price=facts.prices.input if facts.prices else None,
        output_price=facts.prices.output if facts.prices else None,
        models=tuple(sorted(listing.models)),
        trouble=listing.trouble,
    )


def _local_row(resolved: Resolved, *, active: bool) -> ModelRow:
    """A model without a server: there is nothing to ask."""
    if resolved.api == "scripted":
        return ModelRow(profile=resolved.profile, active=active, api=resolved.api, model=resolved.model)
    return ModelRow(
        profile=resolved.profile,
        active=active,
        api=resolved.api,
        model=resolved.model,
        context_window=resolved.context_limit,
        input_price=0.0,
        output_price=0.0,
        where="on this machine",
    )


async def _ask(resolved: Resolved, auth_file: Path) -> Listing:
    return await list_models(resolved.base_url, credentials_of(resolved, auth_file), api=resolved.api)


def _facts(resolved: Resolved, listing: Listing) -> Facts:
    server = listing.facts(resolved.model)
    if resolved.auth == "login":
        server = Facts(server.context_window)
    return configured_facts(resolved).or_else(server).or_else(known_offline(resolved))


def _print(rows: Sequence[ModelRow], style: Style) -> None:
    width = max(len(row.profile) for row in rows)
    for row in rows:
        mark = "*" if row.active else " "
        name = f"{row.profile:<{width}}"
        print(f"{mark} {style.bold(escape(name))}  {escape(_model(row))}")
        if row.server:
            print(f"  {'':<{width}}  {escape(_server(row))}")
        elif row.where:
            print(f"  {'':<{width}}  {escape(row.where)}")
        elif row.trouble:
            print(f"  {'':<{width}}  {escape(row.trouble)}")


def _model(row: ModelRow) -> str:
    window = f"{row.context_window:,} tokens" if row.context_window else "window unknown"
    price = "price unknown"
    if row.input_price is not None and row.output_price is not None:
        price = f"${row.input_price:g} in, ${row.output_price:g} out per million"
    if not row.server:
        return f"{row.api}  {row.model}".strip()
    paid = "by login" if row.auth == "login" and row.input_price is None else price
    return f"{row.api}  {row.model}  {window}  {paid}"


def _server(row: ModelRow) -> str:
    if row.trouble:
        return f"{row.server}: {row.trouble}"
    more = len(row.models) - SHOWN
    names = ", ".join(row.models[:SHOWN]) + (f" and {more} more" if more > 0 else "")
    listed = "" if row.model in row.models else f"; {row.model} is not one of them"
    return f"{row.server} offers {names}{listed}"
