"""What `buddy doctor` says about how Buddy reaches people: notifications and editors."""

import os
import shutil
import sys
from collections.abc import Iterator
from urllib.parse import urlsplit

from buddy.cli.doctor_check import Check
from buddy.config.notify import NotifySettings

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def check_reach(notify: NotifySettings) -> Iterator[Check]:
    yield _editors()
    for name, url in (("webhook", notify.webhook_url), ("ntfy", notify.ntfy_url)):
        if url:
            yield _address(name, url)
    if notify.desktop:
        yield _desktop()


def _editors() -> Check:
    program = shutil.which("buddy")
    if program is None:
        return Check("editors", "info", f"buddy is not on PATH; an editor starts {sys.executable} -m buddy acp")
    return Check("editors", "ok", f"an editor starts {program} acp (Agent Client Protocol)")


def _address(name: str, url: str) -> Check:
    """The host alone: anybody who knows the full address can use it."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "http" and host not in _LOOPBACK:
        return Check("notify", "warn", f"{name} to {host} is not encrypted", "use an https:// address")
    return Check("notify", "ok", f"{name} to {host}{', signed' if name == 'webhook' else ''}")


def _desktop() -> Check:
    program = next((one for one in ("notify-send", "osascript") if shutil.which(one)), None)
    if program is None:
        hint = "install libnotify-bin, or remove desktop from [notify]"
        return Check("notify", "warn", "desktop: notify-send is not installed", hint)
    if program == "notify-send" and not os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
        hint = "start the daemon in your desktop session"
        return Check("notify", "warn", "desktop: no session bus here, so notify-send reaches nobody", hint)
    return Check("notify", "ok", f"desktop by {program}")
