"""The address of a server is shown without anything secret."""

import pytest

from buddy.config.resolve import resolve_profile
from buddy.config.server_address import without_credentials
from buddy.config.settings import Config
from buddy.errors import UserError


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


@pytest.mark.parametrize("base_url", ["localhost:18099/v1", "user:password@host/v1", "ftp://host/v1?key=password"])
def test_an_address_without_a_scheme_is_refused_before_anything_starts(base_url: str) -> None:
    with pytest.raises(UserError, match="BUDDY_BASE_URL must start with http:// or https://") as refused:
        resolve_profile(Config(), {"BUDDY_BASE_URL": base_url, "BUDDY_MODEL": "m"})
    assert "password" not in str(refused.value)
    assert "https://" in refused.value.hint


def test_a_scheme_may_be_written_in_capitals() -> None:
    resolved = resolve_profile(Config(), {"BUDDY_BASE_URL": "HTTPS://host/v1", "BUDDY_MODEL": "m"})
    assert resolved.base_url == "HTTPS://host/v1"
