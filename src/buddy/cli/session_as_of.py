"""`buddy session show --at SEQ`: the files that a session changed, as they were after an event."""

import sys

from buddy.cli.options import Options
from buddy.client.client import Client
from buddy.errors import UserError
from buddy.protocol.file_requests import ListChanges, ListChangesReply
from buddy.terminal.escape import escape


def check_as_of(options: Options) -> int:
    """The event that is meant."""
    if options.at is None:
        raise UserError("--file needs --at SEQ", hint="buddy session show ID prints the numbers of events")
    if options.at < 1:
        raise UserError(f"--at {options.at} is not an event", hint="events are numbered from 1")
    return options.at


async def show_files(client: Client, session_id: str, at: int) -> None:
    """One line per file that had changed by then."""
    reply = await client.request(ListChanges(all=True, at_seq=at), ListChangesReply, session_id)
    print(f"\nFiles as of event {at}:" if reply.files else f"\nNo file had changed by event {at}.")
    width = max((len(escape(file.path)) for file in reply.files), default=0)
    for file in reply.files:
        print(f"  {escape(file.path):<{width}}  {file.change:<8}  +{file.added} -{file.removed}")


async def show_file(client: Client, session_id: str, path: str, at: int) -> None:
    """The content of a file as it was then, redacted like everything that is shown."""
    request = ListChanges(all=True, at_seq=at, content=True, path=path)
    files = (await client.request(request, ListChangesReply, session_id)).files
    if not files:
        raise UserError(f"{path} had not been changed by event {at}", hint="buddy session show ID --at SEQ lists files")
    [file] = files
    if file.change == "deleted":
        raise UserError(f"{path} did not exist at event {at}: the session had deleted it")
    if file.content is None:
        raise UserError(f"the content of {path} at event {at} cannot be shown", hint="it is not text, or was not kept")
    sys.stdout.write(escape(file.content) if sys.stdout.isatty() else file.content)
