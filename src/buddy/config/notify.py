"""`[notify]`: where Buddy reports that a session needs its person, or has finished."""

import binascii
from typing import Literal

from buddy.config.tables import Table

TerminalStyle = Literal["bell", "osc9", "osc777", "osc99"]
SECRET_PREFIX = "whsec_"  # noqa: S105 - not a secret, but what one begins with


class NotifySettings(Table, frozen=True):
    """`[notify]`. `webhook_url` receives signed JSON (Standard Webhooks, with `webhook_secret`), `ntfy_url` is a topic;
    `desktop` uses the desktop of the daemon's machine; `terminal` is what a terminal gets that nobody looks at."""

    webhook_url: str = ""
    webhook_secret: str = ""
    ntfy_url: str = ""
    desktop: bool = False
    terminal: bool | TerminalStyle = True

    def __post_init__(self) -> None:
        for name in ("webhook_url", "ntfy_url"):
            url: str = getattr(self, name)
            if url and not url.startswith(("https://", "http://")):
                raise ValueError(f"{name} must start with https:// or http://")
        if self.webhook_url and not self.webhook_secret:
            raise ValueError("webhook_url requires webhook_secret: whsec_ and the base64 of 24 to 64 random bytes")
        if self.webhook_secret:
            self.signing_key()

    def __repr__(self) -> str:
        return f"NotifySettings(desktop={self.desktop!r}, terminal={self.terminal!r})"

    @property
    def is_used(self) -> bool:
        """Whether the daemon has something to send."""
        return bool(self.webhook_url or self.ntfy_url or self.desktop)

    def signing_key(self) -> bytes:
        """The bytes of the secret; ValueError if it is none."""
        encoded = self.webhook_secret.removeprefix(SECRET_PREFIX)
        try:
            key = binascii.a2b_base64(encoded, strict_mode=True)
        except binascii.Error:
            key = b""
        if len(key) < 16:
            raise ValueError("webhook_secret must be whsec_ and the base64 of at least 16 random bytes")
        return key
