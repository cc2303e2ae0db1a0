"""`buddy session export` and `import` of sessions as they are: one JSON object per line, to move them between logs.

A line is an event as the log has it, byte for byte; a blob that the events after it name, `{"kind": "blob", …}` with
its content as base64; or the row of the list, `{"kind": "session", …}`, for what its events do not have.

Invariants: a file is read and checked completely before anything is written; what was imported before is left alone.
"""

import base64
import binascii
import hashlib
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import IO, Literal

import msgspec
from msgspec import Struct

from buddy.cli.options import Options
from buddy.cli.session_reader import event_in, read_lines
from buddy.cli.settings import places_of, read_config
from buddy.client.client import Client
from buddy.daemon.opening import open_runtime
from buddy.errors import ProtocolError, UserError
from buddy.log.batches import blobs_named
from buddy.log.owners import this_owner
from buddy.protocol.basics import NO_EXPIRY
from buddy.protocol.codes import VERSION
from buddy.protocol.envelopes import Event, parse_incoming
from buddy.protocol.ids import is_id
from buddy.protocol.requests import ListSessions, ListSessionsReply, ReadBlob, ReadBlobReply
from buddy.protocol.shapes import SessionSummary
from buddy.sessions.transfer import ImportedSession, import_session
from buddy.terminal.escape import escape

CHUNK = 256 * 1024
PAGE = 200
MAX_SEQ = NO_EXPIRY
MAX_TIME = 253_402_300_799_999  # the end of the year 9999, the last that a date can show
_TYPE = re.compile(r"[a-z][a-z0-9_]{0,63}")


class BlobLine(Struct, frozen=True, rename="camel"):
    session_id: str
    blob: str
    data: str
    v: str = VERSION
    kind: Literal["blob"] = "blob"


class SessionLine(Struct, frozen=True, rename="camel"):
    session_id: str
    row: SessionSummary
    v: str = VERSION
    kind: Literal["session"] = "session"


class _Head(Struct, frozen=True):
    kind: str


async def exported_lines(client: Client, session_id: str, row: SessionSummary | None = None) -> AsyncIterator[bytes]:
    """Everything of a session; a blob comes before the first event that names it."""
    sent: set[str] = set()
    if row is not None:
        yield msgspec.json.encode(SessionLine(session_id, row))
    async for line in read_lines(client, session_id):
        for blob in sorted(blobs_named(event_in(line)) - sent):
            sent.add(blob)
            content = await _read_blob(client, session_id, blob)
            if content is None:
                print(f"warning: blob {blob} of {session_id} is missing and not exported", file=sys.stderr)
            else:
                yield msgspec.json.encode(BlobLine(session_id, blob, base64.b64encode(content).decode()))
        yield bytes(line)


async def all_sessions(client: Client) -> AsyncIterator[SessionSummary]:
    """All sessions, archived ones included."""
    cursor: str | None = None
    while True:
        request = ListSessions(PAGE, archived="all", cursor=cursor)
        page = await client.request(request, ListSessionsReply)
        for summary in page.sessions:
            yield summary
        cursor = page.next_cursor
        if cursor is None:
            return


async def fork_row(client: Client, session_id: str) -> SessionSummary | None:
    """The row of a fork, whose name is not in its events; None for other sessions."""
    reply = await client.request(ListSessions(1, query=session_id, archived="all"), ListSessionsReply)
    return next((row for row in reply.sessions if row.parent), None)


async def _read_blob(client: Client, session_id: str, blob: str) -> bytes | None:
    """The content; None for a digest that names no blob."""
    parts: list[bytes] = []
    while True:
        offset = sum(map(len, parts))
        try:
            request = ReadBlob(blob, offset, CHUNK, "base64")
            reply = await client.request(request, ReadBlobReply, session_id)
        except ProtocolError as error:
            if error.code != "INVALID_REQUEST":
                raise
            return None
        parts.append(base64.b64decode(reply.data or ""))
        if offset + len(parts[-1]) >= reply.total or not parts[-1]:
            return b"".join(parts)


async def import_file(options: Options) -> None:
    """Put the sessions of an exported file into the log that the options name; one that is refused stops no other."""
    sessions = read_export(options.folder)
    refused: list[UserError] = []
    runtime = await open_runtime(read_config(options), places_of(options), os.environ, log_url=options.log)
    try:
        for session in sessions:
            try:
                is_new = await import_session(runtime.log, session, this_owner())
            except UserError as error:
                refused.append(error)
                continue
            print(session.session_id)
            what = f"imported, {len(session.events)} events" if is_new else "was imported before"
            print(f"{session.session_id}: {what}", file=sys.stderr)
    finally:
        await runtime.close()
    if len(refused) > 1:
        listed = "".join(f"\n  {error}" for error in refused)
        raise UserError(f"{len(refused)} of {len(sessions)} sessions were not imported:{listed}", hint=refused[0].hint)
    if refused:
        raise refused[0]


def read_export(name: str) -> list[ImportedSession]:
    """The sessions of a file, or of stdin for `-`."""
    if name == "-":
        return parse_export(sys.stdin.buffer, "stdin")
    try:
        file = Path(name).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UserError(f"cannot read {name}: {error.strerror}", hint="name a file or a folder") from error
    with closing(file):
        return parse_export(file, name)


def parse_export(lines: "IO[bytes]", name: str) -> list[ImportedSession]:
    events: dict[str, list[Event]] = {}
    blobs: dict[str, dict[str, bytes]] = {}
    rows: dict[str, SessionSummary] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = _parse_line(line)
            _check(entry)
        except (ProtocolError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            hint = "it must be the output of 'buddy session export'"
            raise UserError(f"{name}:{number}: not an event or a blob: {escape(str(error))}", hint=hint) from error
        match entry:
            case Event():
                events.setdefault(entry.session_id, []).append(entry)
            case SessionLine():
                rows[entry.session_id] = entry.row
            case BlobLine():
                blobs.setdefault(entry.session_id, {})[entry.blob] = _content_of(entry, f"{name}:{number}")
    if not events:
        raise UserError(f"{name} has no events", hint="it must be the output of 'buddy session export'")
    return [
        ImportedSession(found, blobs.get(session_id, {}), rows.get(session_id)) for session_id, found in events.items()
    ]


def _parse_line(line: bytes) -> Event | SessionLine | BlobLine:
    line.decode()  # a payload is passed on as it is
    match msgspec.json.decode(line, type=_Head).kind:
        case "blob":
            return msgspec.json.decode(line, type=BlobLine)
        case "session":
            return msgspec.json.decode(line, type=SessionLine)
        case _:
            parsed = parse_incoming(line)
            if not isinstance(parsed, Event):
                raise ProtocolError("INVALID_REQUEST", "neither an event nor a blob")
            return parsed


def _check(entry: Event | SessionLine | BlobLine) -> None:
    """Refuse what no log may have: most of it is put into lines, lists and paths as it is."""
    _expect(is_id(entry.session_id, "sess"), f"invalid sessionId {entry.session_id!r}")
    match entry:
        case Event():
            _expect(1 <= entry.seq <= MAX_SEQ, f"seq {entry.seq} is not between 1 and {MAX_SEQ}")
            _expect(0 <= entry.ts <= MAX_TIME, f"ts {entry.ts} is not between 0 and {MAX_TIME}")
            _expect(entry.run_id is None or is_id(entry.run_id, "run"), f"invalid runId {entry.run_id!r}")
            _expect(_TYPE.fullmatch(entry.type) is not None, f"invalid type {entry.type!r}")
            _expect(bytes(entry.payload).startswith(b"{"), "the payload is not an object")
            entry.body()
        case SessionLine():
            used = entry.row.updated_at
            _expect(used <= MAX_TIME, f"updatedAt {used} is not between 0 and {MAX_TIME}")
        case BlobLine():
            pass  # its digest is checked with its content


def _expect(is_met: bool, problem: str) -> None:
    if not is_met:
        raise ProtocolError("INVALID_REQUEST", problem)


def _content_of(line: BlobLine, place: str) -> bytes:
    try:
        content = base64.b64decode(line.data, validate=True)
    except binascii.Error as error:
        raise UserError(f"{place}: not an event or a blob: {error}") from error
    if hashlib.sha256(content).hexdigest() != line.blob:
        raise UserError(f"{place}: not an event or a blob: the content of blob {escape(line.blob)} has another digest")
    return content
