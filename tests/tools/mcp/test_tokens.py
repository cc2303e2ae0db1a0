"""The tokens of a login are secrets from the moment they are known."""

from pathlib import Path

from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from buddy.tools.mcp.oauth import TokenFile, stored_login

URL = "https://example.com/mcp"


async def test_tokens_are_hidden_when_they_are_stored_and_when_they_are_read(tmp_path: Path) -> None:
    stored: list[str] = []
    file = TokenFile(tmp_path, "web", URL, stored.append)
    await file.set_tokens(OAuthToken(access_token="access-1", refresh_token="refresh-1"))
    client = {"client_id": "me", "client_secret": "client-1", "redirect_uris": ["http://127.0.0.1/"]}
    await file.set_client_info(OAuthClientInformationFull.model_validate(client))
    assert {"access-1", "refresh-1", "client-1"} == set(stored)
    read: list[str] = []
    assert stored_login(tmp_path, "web", URL, read.append) is not None
    assert {"access-1", "refresh-1", "client-1"} == set(read)
