"""What a model learns about files that were brought back."""

from buddy.protocol.file_events import FilesRestored

MAX_NAMED = 50


def restored_note(body: FilesRestored) -> str:
    """A note to go with the user's next message: what the model knows about these files is no longer true."""
    names = [file.path for file in body.files[:MAX_NAMED]]
    count = body.total or len(body.files)
    more = f" and {count - len(names)} more" if count > len(names) else ""
    done = "made your undone changes again" if body.redo else "undid your changes"
    return f"\n\n[The user {done} to: {', '.join(names)}{more}. Read these files again before you rely on them.]"
