"""One line of `buddy doctor`."""

from typing import Literal

from msgspec import Struct

Status = Literal["ok", "info", "warn", "fail"]


class Check(Struct, frozen=True, omit_defaults=True):
    name: str
    status: Status
    text: str
    hint: str = ""
