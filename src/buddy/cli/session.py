"""`buddy session …`: list, name and archive sessions, show what happened, export every byte.

Invariants: data goes to stdout; what goes to a terminal is escaped, what goes to a pipe is exact.
"""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct

from buddy.cli.attach import find_deadlines
from buddy.cli.connect import async_client
from buddy.cli.options import Options
from buddy.cli.session_reader import event_in, read_lines
from buddy.cli.settings import places_of, read_config
from buddy.cli.transcript import render
from buddy.client.bodies import read_full_body
from buddy.client.client import Client
from buddy.client.opening import first_prompt
from buddy.client.steps import find_session
from buddy.daemon.opening import log_url_of, open_shared_log
from buddy.errors import ProtocolError, UserError
from buddy.log.interrupted import find_interrupted
from buddy.log.sqlite import DATABASE
from buddy.protocol.basics import NO_EXPIRY
from buddy.protocol.events import AssistantMessage, UserMessage
from buddy.protocol.requests import (
    ArchiveSession,
    DeleteSession,
    DeleteSessionReply,
    ForkSession,
    ForkSessionReply,
    ListSessions,
    ListSessionsReply,
    ReadEvents,
    ReadEventsReply,
    RenameSession,
)
from buddy.protocol.shapes import SessionSummary
from buddy.protocol.titles import title_of
from buddy.terminal.escape import escape, escape_json, one_line
from buddy.terminal.phrases import format_deadline
from buddy.terminal.style import style_of

MAX_LISTED = 200
PROMPT_WIDTH = 60
NARROW = 30
ID_END = 8


class SessionRow(Struct, frozen=True):
    """A session in the list."""

    summary: SessionSummary
    prompt: str
    interrupted: bool
    number: int | None
    expires_at: int = NO_EXPIRY

    @property
    def state(self) -> str:
        if self.interrupted:
            return "interrupted"
        left = format_deadline(self.expires_at, time.time())
        return f"{self.summary.state}, {left}" if left else self.summary.state

    @property
    def name(self) -> str:
        """The title that somebody gave it; a made one says less than the message that it was made from."""
        title = self.summary.title
        name = title if title and title != title_of(self.prompt) else self.prompt
        agent = self.summary.agent
        return f"[{agent} of …{(self.summary.parent or '')[-ID_END:]}] {name}" if agent else name

    def to_json(self) -> dict[str, object]:
        return {
            "sessionId": self.summary.session_id,
            "state": self.summary.state,
            "interrupted": self.interrupted,
            "updatedAt": self.summary.updated_at,
            "rootPath": self.summary.repo.root_path,
            "mode": self.summary.mode,
            "lastSeq": self.summary.last_seq,
            "prompt": self.prompt,
            "title": self.summary.title,
            "archived": self.summary.archived,
            "costUsd": self.summary.cost_usd,
            "tokens": self.summary.tokens,
            "waiting": self.summary.waiting,
            "parent": self.summary.parent,
            "agent": self.summary.agent,
            "number": self.number,
        }


def session(options: Options) -> int:
    if options.action == "import":
        from buddy.cli.session_import import import_sessions
        from buddy.cli.session_transfer import import_file

        asyncio.run(import_sessions(options) if os.path.isdir(options.folder) else import_file(options))  # noqa: PTH112 - plain text
        return 0
    actions = {
        "list": _list,
        "show": _show,
        "search": _search,
        "export": _export,
        "fork": _fork,
        "delete": _delete,
        "rename": _rename,
        "archive": _archive,
    }
    action = actions[options.action]

    async def work() -> int:
        async with async_client(options, "cli") as client:
            await action(client, options)
            sys.stdout.flush()
            return 0

    return asyncio.run(work())


async def _list(client: Client, options: Options) -> None:
    if not 1 <= options.limit <= MAX_LISTED:
        raise UserError(f"--limit must be between 1 and {MAX_LISTED}")
    root = None if options.all else os.path.realpath(options.directory)  # noqa: ASYNC240 - one look, nobody waits
    wanted = ListSessions(options.limit, root, archived=options.archived)
    found = (await client.request(wanted, ListSessionsReply)).sessions
    interrupted, deadlines = await _interrupted(options), await find_deadlines(client)
    rows = [
        SessionRow(
            summary,
            prompt,
            summary.session_id in interrupted,
            None if options.all or options.archived else number,  # numbers are those of one directory
            deadlines.get(summary.session_id, NO_EXPIRY),
        )
        for number, summary in enumerate(found, 1)
        if (prompt := await _prompt(client, summary.session_id)) is not None
    ]
    if options.json:
        _print_json({"sessions": [row.to_json() for row in rows]})
    elif rows:
        _print_table(rows)
    else:
        kind = "archived sessions" if options.archived else "sessions"
        print(f"no {kind}{f' in {escape(root)}' if root else ''}", file=sys.stderr)
        if root:
            print("hint: buddy session list --all shows other directories", file=sys.stderr)


async def _prompt(client: Client, session_id: str) -> str | None:
    """The first message; None if the session was deleted since it was listed."""
    try:
        return await first_prompt(client, session_id)
    except ProtocolError as error:
        if error.code != "SESSION_NOT_FOUND":
            raise
        return None


async def _show(client: Client, options: Options) -> None:
    session_id = await client.perform(find_session(options.session_id, options.directory))
    if options.at is not None or options.file is not None:
        from buddy.cli.session_as_of import check_as_of, show_file

        at = check_as_of(options)
        if options.file is not None:
            await show_file(client, session_id, options.file, at)
            return
    style = style_of(sys.stdout, os.environ)
    clean = escape if sys.stdout.isatty() else str
    async for line in read_lines(client, session_id):
        event = event_in(line)
        if options.at is not None and event.seq > options.at:
            break
        body = await client.perform(read_full_body(event))
        for shown in render(body, style, clean) if body is not None else ():
            number = f"{event.seq:>6}" if shown.heads else " " * 6
            print(f"{style.dim(number)}  {shown.text}")
    if options.at is not None:
        from buddy.cli.session_as_of import show_files

        await show_files(client, session_id, options.at)


async def _export(client: Client, options: Options) -> None:
    from buddy.cli.session_transfer import all_sessions, exported_lines, fork_row

    if bool(options.session_id) == options.all:
        raise UserError("name one session, or --all", hint="buddy session list --all shows them")
    rows: dict[str, SessionSummary | None] = {}
    if options.all:
        rows.update({row.session_id: row async for row in all_sessions(client)})
    else:
        session_id = await client.perform(find_session(options.session_id, options.directory))
        rows[session_id] = await fork_row(client, session_id)
    is_terminal = sys.stdout.isatty()
    for session_id, row in rows.items():
        async for line in exported_lines(client, session_id, row):
            sys.stdout.buffer.write((escape_json(line.decode()).encode() if is_terminal else line) + b"\n")


async def _search(client: Client, options: Options) -> None:
    """Every title and message that contains all words, newest session first, ignoring case."""
    root = None if options.all else os.path.realpath(options.directory)  # noqa: ASYNC240 - one look, nobody waits
    words, found = [word.casefold() for word in options.words], list[dict[str, object]]()
    sessions = (await client.request(ListSessions(MAX_LISTED, root, archived="all"), ListSessionsReply)).sessions
    for summary in sessions:
        matches = [match async for match in _matches(client, summary, words)]
        if not matches and _has_all(summary.title or "", words):
            matches = [(0, summary.title or "")]
        found += [{"sessionId": summary.session_id, "seq": seq, "text": text} for seq, text in matches]
    if options.json:
        _print_json({"found": found})
        return
    for match in found:
        print(f"{match['sessionId']}  {match['seq'] or 'title':>6}  {one_line(str(match['text']))}")
    if not found:
        print(f"no message or title contains {escape(' '.join(options.words))!r}", file=sys.stderr)


async def _matches(client: Client, summary: SessionSummary, words: list[str]) -> AsyncIterator[tuple[int, str]]:
    async for line in read_lines(client, summary.session_id):
        event = event_in(line)
        if event.type not in ("user_message", "assistant_message"):
            continue
        body = await client.perform(read_full_body(event))
        if isinstance(body, (UserMessage, AssistantMessage)) and _has_all(body.text, words):
            yield event.seq, _around(body.text, words[0])


def _has_all(text: str, words: list[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def _around(text: str, wanted: str) -> str:
    """The text around the first match."""
    at = max(0, text.casefold().find(wanted))
    start = max(0, at - 40)
    return ("…" if start else "") + text[start : at + len(wanted) + 60]


async def _fork(client: Client, options: Options) -> None:
    session_id = await client.perform(find_session(options.session_id, options.directory))
    seq = options.seq
    if seq is not None and seq < 0:
        raise UserError("--seq must be 0 or more", hint="buddy session show numbers the events")
    if seq is None:
        seq = (await client.request(ReadEvents(0, 1), ReadEventsReply, session_id)).last_seq
    try:
        forked = await client.request(ForkSession(seq), ForkSessionReply, session_id)
    except ProtocolError as error:
        if error.code != "UNSUPPORTED_REQUEST_TYPE":
            raise
        raise UserError("this runtime can't fork sessions", exit_code=1) from error
    print(forked.session_id)


async def _rename(client: Client, options: Options) -> None:
    session_id = await client.perform(find_session(options.session_id, options.directory))
    renamed = await client.request(RenameSession(" ".join(options.words)), RenameSession, session_id)
    print(f"{escape(session_id)} is now called {one_line(renamed.title, PROMPT_WIDTH * 2)}", file=sys.stderr)


async def _archive(client: Client, options: Options) -> None:
    if options.undo:
        await _unarchive(client, options)
        return
    session_id = await client.perform(find_session(options.session_id, options.directory))
    await client.request(ArchiveSession(archived=True), ArchiveSession, session_id)
    undo = f"buddy session archive {session_id} --undo"
    print(f"archived {escape(session_id)}; '{escape(undo)}' brings it back", file=sys.stderr)


async def _unarchive(client: Client, options: Options) -> None:
    """`last` is the archived session that was used last."""
    if options.session_id == "last":
        root = os.path.realpath(options.directory)  # noqa: ASYNC240 - one look, nobody waits
        found = (await client.request(ListSessions(1, root, archived=True), ListSessionsReply)).sessions
        if not found:
            raise UserError(f"no archived session in {root}", hint="see 'buddy session list --archived --all'")
        session_id = found[0].session_id
    else:
        session_id = await client.perform(find_session(options.session_id, options.directory))
        archived = ListSessions(1, query=session_id, archived=True)
        if not (await client.request(archived, ListSessionsReply)).sessions:
            raise UserError(f"{session_id} is not archived", hint="see 'buddy session list --archived'")
    await client.request(ArchiveSession(archived=False), ArchiveSession, session_id)
    print(f"{escape(session_id)} is in the list again", file=sys.stderr)


async def _delete(client: Client, options: Options) -> None:
    session_id = await client.perform(find_session(options.session_id, options.directory))
    await client.request(DeleteSession(), DeleteSessionReply, session_id)
    print(f"deleted {escape(session_id)}", file=sys.stderr)


async def _interrupted(options: Options) -> list[str]:
    """Sessions in state running whose process is gone; the state alone does not show that."""
    url = log_url_of(read_config(options), os.environ, options.log)
    if url is not None:
        log = await open_shared_log(url, lambda: 0)
        try:
            return await log.interrupted()
        finally:
            await log.close()
    database = places_of(options).state_dir / DATABASE
    return find_interrupted(database, int(time.time() * 1000)) if database.exists() else []


def _print_json(value: object) -> None:
    text = msgspec.json.encode(value).decode()
    print(escape_json(text) if sys.stdout.isatty() else text)


def _print_table(rows: list[SessionRow]) -> None:
    style = style_of(sys.stdout, os.environ)
    now = int(time.time() * 1000)
    cells = [("SESSION", "STATE", "USED", "", "DIRECTORY", "PROMPT")]
    for row in rows:
        place = one_line(_short_path(row.summary.repo.root_path), 60)
        number, used = f"#{row.number}" if row.number else "", ago(now - row.summary.updated_at)
        cells.append((row.summary.session_id, row.state, used, number, place, row.name))
    columns = [column for column in range(5) if any(line[column] for line in cells)]
    widths = _widths(cells, columns)
    room = PROMPT_WIDTH
    if sys.stdout.isatty():
        available = shutil.get_terminal_size().columns - 2 * len(widths)
        if available - sum(widths) < NARROW:  # the end of an id names it, too
            cells[1:] = [(line[0][-ID_END:], *line[1:]) for line in cells[1:]]
            widths = _widths(cells, columns)
        room = max(10, available - sum(widths))
    for number, line in enumerate(cells):
        padded = [line[column].ljust(width) for column, width in zip(columns, widths, strict=True)]
        text = "  ".join([*padded, one_line(line[5], room)]).rstrip()
        print(style.bold(text) if number == 0 else text)
    for row in rows:
        if row.interrupted:
            print(f"hint: buddy resume {row.summary.session_id} resumes the interrupted run", file=sys.stderr)


def _widths(cells: list[tuple[str, str, str, str, str, str]], columns: list[int]) -> list[int]:
    return [max(len(line[column]) for line in cells) for column in columns]


def _short_path(path: str) -> str:
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 - a string in, a string out
    return f"~{path[len(home) :]}" if home and (path == home or path.startswith(f"{home}/")) else path


def ago(milliseconds: int) -> str:
    """How long ago, in one unit: `3 min ago`."""
    seconds = max(0, milliseconds // 1000)
    if seconds < 60:
        return "just now"
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "min")):
        if seconds >= size:
            count = seconds // size
            plural = "s" if count > 1 and unit != "min" else ""
            return f"{count} {unit}{plural} ago"
    return "just now"
