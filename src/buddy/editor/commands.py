"""Slash commands in an editor: those from files, which the runtime expands, and a few of Buddy's own."""

from buddy.client.client import Client
from buddy.editor.json_rpc import Json
from buddy.editor.session import EditorSession
from buddy.editor.updates import chunk
from buddy.protocol.command_requests import ListCommands, ListCommandsReply
from buddy.protocol.file_requests import RestoreFiles, RestoreFilesReply
from buddy.protocol.requests import CompactSession, CompactSessionReply

OWN = {
    "compact": "Replace the history by a summary",
    "undo": "Undo the file changes of the last run that made some",
}


async def show_commands(session: EditorSession, client: Client) -> None:
    """Announce what can be typed."""
    found = await client.request(ListCommands(session.root), ListCommandsReply)
    commands: list[Json] = [{"name": name, "description": text} for name, text in OWN.items()]
    for command in found.commands:
        if command.name in OWN:
            continue
        entry: Json = {"name": command.name, "description": command.description or command.kind}
        commands.append({**entry, "input": {"hint": command.argument_hint}} if command.argument_hint else entry)
    await session.show({"sessionUpdate": "available_commands_update", "availableCommands": commands})


async def run_command(session: EditorSession, client: Client, text: str) -> Json | None:
    """The answer to a prompt that is one of Buddy's own commands; None for any other."""
    match text.strip():
        case "/compact":
            reply = await client.request(CompactSession(), CompactSessionReply, session.session_id)
            said = f"Compacted: {reply.before_tokens} → {reply.after_tokens} tokens."
        case "/undo":
            said = await _undo(session, client)
        case _:
            return None
    await session.show(chunk("agent_message_chunk", said))
    return {"stopReason": "end_turn"}


async def _undo(session: EditorSession, client: Client) -> str:
    reply = await client.request(RestoreFiles(dry_run=False), RestoreFilesReply, session.session_id)
    lines = [f"restored {file.path}" for file in reply.restored]
    lines += [f"left alone {conflict.path}: {conflict.why}" for conflict in reply.conflicts]
    return "\n".join(lines) or "Nothing to undo."
