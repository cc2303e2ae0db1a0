"""The address of a model's server, as it may be shown."""

from urllib.parse import urlsplit


def without_credentials(base_url: str) -> str:
    """The address without user name, password and query; empty if it is not a URL."""
    try:
        parts = urlsplit(base_url)
    except ValueError:
        return ""
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else ""
