"""The address of a server is shown without anything secret."""

import pytest

from buddy.config.server_address import without_credentials


@pytest.mark.parametrize(
    ("base_url", "shown"),
    [
        ("https://api.example.com/v1", "https://api.example.com/v1"),
        ("https://me:pass@example.com:8443/v1?key=s3cret#here", "https://example.com:8443/v1"),
        ("https://me:p@ss@example.com/v1", "https://example.com/v1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
        ("me:pass@example.com/v1", ""),
        ("http://[::1", ""),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_credentials_and_query(base_url: str, shown: str) -> None:
    assert without_credentials(base_url) == shown
