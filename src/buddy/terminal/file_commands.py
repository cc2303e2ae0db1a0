"""Slash commands about the files that the session changed: show, undo, redo, go back."""

from buddy.errors import ProtocolError, UserError
from buddy.protocol.file_requests import ListChanges, ListChangesReply, RestoreFiles, RestoreFilesReply
from buddy.terminal.blocks import diff_block
from buddy.terminal.change_commands import fork_at
from buddy.terminal.command_ui import CommandUI
from buddy.terminal.escape import escape
from buddy.terminal.file_blocks import conflict_lines, file_lines
from buddy.terminal.phrases import plural
from buddy.terminal.show_commands import NOTHING_SENT

BOTH, CONVERSATION, FILES = "both", "conversation", "files"
_CHOICES = {
    BOTH: "the conversation and the files",
    CONVERSATION: "only the conversation; the files stay as they are",
    FILES: "only the files; the conversation goes on",
}
_USAGE = "/undo, /undo all, /undo run ID, /undo call ID, /undo to SEQ, /undo force PATH"


async def show_changes(ui: CommandUI, wanted: str) -> None:
    """The files of the last run that changed some; `all` for the entire session, `diff` with the diffs."""
    words = wanted.split()
    if unknown := [word for word in words if word not in ("all", "diff")]:
        raise UserError(f"unknown /changes option {unknown[0][:40]!r}", hint="/changes, /changes all, /changes diff")
    request = ListChanges(all="all" in words, diff="diff" in words)
    reply = await ui.session.client.request(request, ListChangesReply, _session_id(ui))
    lines = file_lines(reply.files, ui.style) if not request.diff else []
    for file in reply.files if request.diff else ():
        lines.append(diff_block(file.diff or "", ui.style))
    conflicts = [f"  ! {escape(file.path)}: {escape(file.conflict)}" for file in reply.files if file.conflict]
    notes = escape(reply.uncovered).replace(". ", ".\n").split("\n")
    notes = [ui.style.dim(f"  {note}") for note in notes]
    ui.show("\n".join([*(lines or ["  no file was changed"]), *map(ui.style.yellow, conflicts), *notes]))


async def undo(ui: CommandUI, wanted: str) -> None:
    """Show what would be restored, ask, and restore it."""
    await _restore(ui, _selection(wanted.split()))


async def redo(ui: CommandUI, _: str) -> None:
    await _restore(ui, RestoreFiles(redo=True))


async def rewind(ui: CommandUI, wanted: str) -> None:
    """Go back to before an earlier message: in the conversation, in the files, or in both."""
    messages = ui.session.messages
    number, what = [*wanted.split(), "", ""][:2]
    if not number.isdecimal() or not 1 <= int(number) <= len(messages):
        await choose_message(ui)
        return
    seq, text = messages[int(number) - 1]
    if not what:
        if changed := await _count_changes(ui, seq - 1):
            choices = list(_CHOICES)
            title = f"{plural(changed, 'file')} changed since. Go back in"
            ui.choose(title, list(_CHOICES.values()), lambda at: ui.enqueue(f"/back {number} {choices[at]}"))
            return
        what = CONVERSATION
    if what in (BOTH, FILES) and not await _restore(ui, RestoreFiles(to_seq=seq - 1)):
        return
    if what != FILES:
        await fork_at(ui, seq - 1)
        ui.set_input(text)


async def choose_message(ui: CommandUI) -> None:
    """Choose an earlier message to return to: see `rewind`."""
    messages = ui.session.messages
    if not messages:
        ui.show(f"  {NOTHING_SENT}")
        return
    texts = [text for _, text in messages]
    ui.choose("Go back to", texts, lambda index: ui.enqueue(f"/back {index + 1}"), len(messages) - 1)


async def _count_changes(ui: CommandUI, seq: int) -> int:
    """How many files could be brought back to what they were at an event."""
    try:
        reply = await ui.session.client.request(RestoreFiles(to_seq=seq), RestoreFilesReply, _session_id(ui))
    except ProtocolError:
        return 0  # without checkpoints, or in a daemon that has none
    return len(reply.restored) + len(reply.conflicts)


def _selection(words: list[str]) -> RestoreFiles:
    match words:
        case []:
            return RestoreFiles()
        case ["all"]:
            return RestoreFiles(all=True)
        case ["run", run_id]:
            return RestoreFiles(run_id=run_id)
        case ["call", call_id]:
            return RestoreFiles(call_id=call_id)
        case ["to", seq] if seq.isdecimal():
            return RestoreFiles(to_seq=int(seq))
        case ["force", *paths] if paths:
            return RestoreFiles(force=tuple(paths))
        case _:
            raise UserError(f"unknown /undo option {' '.join(words)[:40]!r}", hint=_USAGE)


async def _restore(ui: CommandUI, request: RestoreFiles) -> bool:
    """False if it was not wanted after all."""
    session_id, client = _session_id(ui), ui.session.client
    preview = await client.request(request, RestoreFilesReply, session_id)
    lines = [*file_lines(preview.restored, ui.style), *conflict_lines(preview.conflicts, ui.style)]
    if preview.conflicts and not request.redo:
        lines.append(ui.style.dim("    left as they are; /undo force PATH restores one anyway"))
    if not preview.restored:
        ui.show("\n".join([*lines, _nothing(request, preview)]))
        return True
    ui.show("\n".join(lines))
    question = "Change {} again?" if request.redo else "Restore {}?"
    if not await ui.confirm(question.format(plural(len(preview.restored), "file"))):
        ui.show("  nothing was changed")
        return False
    await client.request(_for_real(request), RestoreFilesReply, session_id)
    return True


def _nothing(request: RestoreFiles, preview: RestoreFilesReply) -> str:
    if preview.conflicts:
        return "  nothing was changed"
    return "  nothing to redo" if request.redo else "  nothing to undo"


def _for_real(request: RestoreFiles) -> RestoreFiles:
    return RestoreFiles(
        request.run_id,
        request.turn,
        request.call_id,
        request.to_seq,
        request.all,
        request.redo,
        dry_run=False,
        force=request.force,
    )


def _session_id(ui: CommandUI) -> str:
    if not ui.session.session_id:
        raise UserError(NOTHING_SENT)
    return ui.session.session_id
