"""The address of a model's server, as it may be shown."""

from urllib.parse import unquote, urlsplit


def without_credentials(base_url: str) -> str:
    """The address without user name, password and query; empty if it is not a URL."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else ""


def password_in(base_url: str) -> str:
    """The password, or the user name that stands in its place; empty if the address has neither."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return ""
    return unquote(parts.password or parts.username or "")
