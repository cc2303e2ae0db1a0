"""The APIs that a profile can have: their names, how a request reaches their servers, and the fields that their wires
keep for themselves.

Invariants: a wire prefixes each field of its own in a reply's `opaque` with its API's name and an underscore, so no
wire needs to know the fields of another. A URL without a version gets that of its API, as vendors' SDKs do it.
"""

import re
from collections.abc import Mapping
from typing import get_args

from msgspec import Struct

from buddy.config.settings import Api

HTTP_APIS: tuple[str, ...] = tuple(api for api in get_args(Api) if api != "scripted")

_PREFIXES = tuple(f"{api}_" for api in HTTP_APIS)
_VERSION = re.compile(r"/v\d+(?:(?:alpha|beta)\d*)?$")


class Access(Struct, frozen=True):
    """The header of the key and what precedes the key in it, headers of every request, the version in a URL, and where
    the list of models is."""

    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    headers: Mapping[str, str] = {}
    version: str = ""
    models: str = "/models"


_OTHERS = {
    "anthropic": Access("x-api-key", "", {"anthropic-version": "2023-06-01"}, "v1", "/models?limit=1000"),
    "gemini": Access("x-goog-api-key", "", {}, "v1beta", "/models?pageSize=1000"),
}
_KEY_HEADERS = {"authorization", *(access.key_header for access in _OTHERS.values())}


def access_of(api: str) -> Access:
    return _OTHERS.get(api) or Access()


def add_version(base_url: str, api: str) -> str:
    """The URL that the paths of the API start from."""
    root, version = base_url.rstrip("/"), access_of(api).version
    return f"{root}/{version}" if version and "://" in root and not _VERSION.search(root) else root


def key_in(headers: Mapping[str, str]) -> str:
    """The secret that authenticates a request with these headers."""
    return next((headers[name].removeprefix("Bearer ") for name in _KEY_HEADERS if name in headers), "")


def is_private_field(name: str) -> bool:
    """Whether a field of `opaque` belongs to a wire, rather than to the server that sent it."""
    return name.startswith(_PREFIXES)


def other_apis(api: str) -> list[str]:
    return [other for other in HTTP_APIS if other != api]
