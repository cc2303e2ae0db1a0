"""The ways a notice leaves this machine, or reaches its desktop.

Invariants: a webhook is signed over exactly what is sent, by the Standard Webhooks scheme; a receiver's refusal for
good is not retried; addresses come from the user's own file alone.
"""

import asyncio
import base64
import hashlib
import hmac
import html
import json
import shutil
import sys
import time
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import urlsplit

from msgspec.structs import replace

from buddy.models.http.address import parse_address
from buddy.models.http.client import HttpClient, Timeouts
from buddy.notify.notices import Notice, SessionPlace, headline

SECONDS = 10.0
TOTAL_SECONDS = 30.0
GONE = 410
TOO_MANY = 429
DESKTOP_SECONDS = 5.0


class SendFailed(Exception):
    """It was not delivered; `is_final` if it is of no use to try again."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Sender(Protocol):
    name: str
    is_lasting: bool
    """Whether it is worth sending after a restart."""

    async def send(self, notice: Notice, place: SessionPlace) -> None:
        """Deliver it; SendFailed if that did not work."""
        ...


class Webhook:
    name = "webhook"
    is_lasting = True

    def __init__(self, url: str, key: bytes) -> None:
        self._url = url
        self._key = key

    async def send(self, notice: Notice, place: SessionPlace) -> None:
        body = json.dumps(webhook_body(notice, place), ensure_ascii=False, separators=(",", ":")).encode()
        headers = {"content-type": "application/json", **sign(self._key, f"msg_{notice.id}", int(time.time()), body)}
        await _post(self._url, headers, body)


class Ntfy:
    name = "ntfy"
    is_lasting = True

    def __init__(self, url: str) -> None:
        self._url = url

    async def send(self, notice: Notice, place: SessionPlace) -> None:
        needs = notice.kind == "needs_you"
        headers = {
            "content-type": "text/plain; charset=utf-8",
            "title": _header(headline(notice, place)),
            "priority": "4" if needs else "3",
            "tags": "raising_hand" if needs else "white_check_mark" if notice.outcome == "success" else "warning",
        }
        if place.link.startswith("http"):
            headers["click"] = place.link
        await _post(self._url, headers, f"{notice.what}\n{place.link}".encode())


class Desktop:
    name = "desktop"
    is_lasting = False

    async def send(self, notice: Notice, place: SessionPlace) -> None:
        command = desktop_command(headline(notice, place), f"{notice.what}\n{place.link}", notice.kind == "needs_you")
        if command is None:
            raise SendFailed("neither notify-send nor osascript is installed", is_final=True)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(DESKTOP_SECONDS):
                _, said = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise SendFailed(f"{command[0]} does not end", is_final=True) from None
        if process.returncode:
            raise SendFailed(said.decode("utf-8", "replace").strip()[:200] or f"{command[0]} failed", is_final=True)


def desktop_command(title: str, text: str, is_urgent: bool) -> list[str] | None:
    """The program that shows it; None if there is none."""
    if shutil.which("notify-send"):
        urgency = "critical" if is_urgent else "normal"
        return ["notify-send", "--app-name=Buddy", f"--urgency={urgency}", "--", title, html.escape(text, quote=False)]
    if sys.platform == "darwin" and shutil.which("osascript"):
        script = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run"
        return ["osascript", "-e", script, title, text]
    return None


def webhook_body(notice: Notice, place: SessionPlace) -> dict[str, object]:
    data = {
        "sessionId": notice.session_id,
        "runId": notice.run_id,
        "title": place.title,
        "cwd": place.root,
        "text": notice.what,
        "link": place.link,
    }
    if notice.kind == "finished":
        data["outcome"] = notice.outcome
    when = datetime.fromtimestamp(notice.ts / 1000, UTC).isoformat()
    return {"type": f"session.{notice.kind}", "timestamp": when, "data": data}


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of Standard Webhooks."""
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }


def _header(text: str) -> str:
    """A header has no other characters than ASCII's, unless they are encoded (RFC 2047)."""
    if text.isascii():
        return text
    return f"=?UTF-8?B?{base64.b64encode(text.encode()).decode()}?="


async def _post(url: str, headers: dict[str, str], body: bytes) -> None:
    """Send it; SendFailed unless the server accepts it."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        address = replace(parse_address(url), path="")
        client = HttpClient(address, Timeouts(connect=SECONDS, idle=SECONDS, headers=SECONDS))
    except ValueError as error:
        raise SendFailed(f"the URL {error}", is_final=True) from error
    try:
        async with asyncio.timeout(TOTAL_SECONDS):
            response = await client.request("POST", target, {**headers, "content-length": str(len(body))}, [body])
        status = response.status
        response.close()  # whatever it says, it is not read
    except TimeoutError as error:
        raise SendFailed(f"{address.authority} did not answer within {TOTAL_SECONDS:g} s") from error
    except OSError as error:
        raise SendFailed(f"{address.authority}: {error}") from error
    finally:
        client.close()
    if status // 100 != 2:
        is_final = status == GONE or (status // 100 == 4 and status not in (408, TOO_MANY))
        raise SendFailed(f"{address.authority} answered {status}", is_final=is_final)
