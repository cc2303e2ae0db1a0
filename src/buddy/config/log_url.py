"""The URL of a log as people see it: without its passwords."""

import re

_USER_PASSWORD = re.compile(r"^([a-z]+://[^/?#@:]*:)(.*)(@)", re.IGNORECASE | re.DOTALL)
_QUERY_PASSWORD = re.compile(r"([?&](?:password|sslpassword)=)[^&#]*", re.IGNORECASE)


def shown_url(url: str) -> str:
    """The URL with `***` instead of its passwords, whether it is valid or not."""
    return _USER_PASSWORD.sub(r"\1***\3", _QUERY_PASSWORD.sub(r"\1***", url.strip()))


def user_password(url: str) -> str:
    """What is hidden before the server's name, as it is written; empty if nothing is."""
    found = _USER_PASSWORD.match(_QUERY_PASSWORD.sub(r"\1***", url.strip()))
    return found[2] if found else ""
