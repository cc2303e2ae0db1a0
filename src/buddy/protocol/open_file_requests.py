"""Files that a client has open, perhaps with changes that are not saved."""

from buddy.protocol.ids import SessionId
from buddy.protocol.shapes import Shape


class OfferFiles(Shape, frozen=True):
    """From now on the client is asked by `file_wanted` for the text of files that the session's tools read or change.

    The last client that offered its files for a session is the one that is asked. It stays so until it is gone;
    `writes` says that it can change its text, too.
    """

    session_id: SessionId
    writes: bool = False


class FileWanted(Shape, frozen=True):
    """What has the client open under this absolute path? With `content`, it replaces what it has."""

    file_request_id: str
    path: str
    content: str | None = None


class AnswerFile(Shape, frozen=True):
    """`content` is the whole text, null if the client has none; `written` answers a `file_wanted` with `content`."""

    file_request_id: str
    content: str | None = None
    written: bool = False
