"""Requests that bring blobs."""

from buddy.daemon.connection import PeerConnection
from buddy.daemon.dispatch import Handlers, on_session
from buddy.daemon.uploads import Uploads
from buddy.protocol.blob_requests import UploadBlob
from buddy.protocol.shapes import Shape
from buddy.sessions.session import Session


class BlobRequests:
    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads

    def handlers(self) -> Handlers:
        return {"upload_blob": on_session(UploadBlob, self.upload_blob)}

    async def upload_blob(self, _peer: PeerConnection, request: UploadBlob, session: Session) -> Shape:
        return await self._uploads.add(session.session_id, request)
