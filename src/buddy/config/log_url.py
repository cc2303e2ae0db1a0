"""The URL of a log as people see it: without its passwords."""

import re

_USER_PASSWORD = re.compile(r"^([a-z]+://[^/?#@]*?:)[^/?#]*(@)", re.IGNORECASE)
_QUERY_PASSWORD = re.compile(r"([?&](?:password|sslpassword)=)[^&#]*", re.IGNORECASE)


def shown_url(url: str) -> str:
    """The URL with `***` instead of its passwords, whether it is valid or not."""
    return _QUERY_PASSWORD.sub(r"\1***", _USER_PASSWORD.sub(r"\1***\2", url.strip()))
