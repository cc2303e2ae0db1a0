"""`buddy web`: open the console, share a session with a guest, or log everybody out.

Invariants: stdout has the link alone; no process is started with it, because others can read its arguments.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from buddy.cli.options import Options
from buddy.client.blocking import BlockingClient, connect_unix
from buddy.client.core import Fields
from buddy.client.steps import find_session
from buddy.config.paths import socket_path
from buddy.errors import ProtocolError, UserError
from buddy.version import VERSION

EXPIRES = "1d"


def web(options: Options) -> int:
    _check(options)
    with _daemon(options) as client:
        if options.revoke:
            return _revoke(client, options)
        wanted = {"listen": options.listen, "tlsCert": options.tls_cert, "tlsKey": options.tls_key}
        payload: Fields = {name: value for name, value in wanted.items() if value}
        url: str = _ask(client, "open_web", {**payload, "allowRemote": options.allow_remote})["url"]
        return _share(client, options, url) if options.share else _open(client, options)


def _check(options: Options) -> None:
    if options.share and not options.session:
        raise UserError("--share needs --session", hint="see 'buddy session list'; --session last is the last one here")
    if options.expires and not options.share:
        raise UserError("--expires needs --share")
    if options.session and not options.share and not options.revoke:
        raise UserError("--session needs --share or --revoke")


def _open(client: BlockingClient, options: Options) -> int:
    """Print the owner's link, and open it where there is a browser."""
    command = None if options.no_open else _browser()
    made = _ask(client, "mint_web_link", {"page": command is not None})
    print(made["url"], flush=True)
    print("The link works once, within 10 minutes.", file=sys.stderr)
    if command is None:
        _explain_tunnel(made["url"])
    elif not _start(command, Path(made["page"]).as_uri()):
        print(f"{command[0]} did not start; open the link yourself", file=sys.stderr)
    return 0


def _share(client: BlockingClient, options: Options, url: str) -> int:
    """Print a link for a role on one session."""
    from buddy.protocol.durations import parse_duration

    expires = options.expires or EXPIRES
    seconds = parse_duration(expires)
    if seconds is None:
        raise UserError(f"--expires {expires} is not a duration", hint="use for example 30m, 8h or 2d")
    session_id = client.perform(find_session(options.session or "", options.directory))
    payload = {"role": options.share, "once": True, "expiresInSeconds": seconds}
    token = _ask(client, "mint_token", payload, session_id)["attachToken"]
    print(f"{url}#token={token}", flush=True)
    print(
        f"The link works once. It gives the role {options.share} on {session_id}, for {expires}.\n"
        f"Revoke it with: buddy web --revoke --session {session_id}",
        file=sys.stderr,
    )
    return 0


def _revoke(client: BlockingClient, options: Options) -> int:
    """End the logins and links of a session's guests; without a session, the owner's."""
    if not options.session:
        ended = _ask(client, "revoke_web_logins", {})["revoked"]
        print(f"ended {ended} {'login' if ended == 1 else 'logins'}", file=sys.stderr)
        return 0
    session_id = client.perform(find_session(options.session, options.directory))
    tokens = _ask(client, "list_tokens", {}, session_id)["tokens"]
    links = [token["id"] for token in tokens if token.get("kind") in ("link", "used_link")]
    for link in links:
        _ask(client, "revoke_token", {"attachToken": link}, session_id)
    print(f"revoked {len(links)} {'link' if len(links) == 1 else 'links'} of {session_id}", file=sys.stderr)
    return 0


@contextmanager
def _daemon(options: Options) -> Generator[BlockingClient, None, None]:
    """A client of the daemon, which is started if it is not running."""
    path = socket_path(os.environ, options.state_dir, options.socket)
    connection = connect_unix(path)
    if connection is None:
        from buddy.cli.daemon import launch

        # The daemon opens the console on request, so that it opens it again after a restart.
        listen, options.listen = options.listen, None
        launch(options)
        options.listen = listen
        connection = connect_unix(path)
    if connection is None:
        raise UserError("the daemon has stopped again", hint="see 'buddy daemon logs'", exit_code=75)
    client = BlockingClient(connection, "cli", VERSION, lambda: connect_unix(path))
    try:
        yield client
    finally:
        client.close()


def _ask(client: BlockingClient, kind: str, payload: Fields, session_id: str | None = None) -> Fields:
    try:
        return client.ask(kind, payload, session_id)
    except ProtocolError as error:
        if error.code != "UNSUPPORTED_REQUEST_TYPE":
            raise
        hint = "restart it with: buddy daemon stop"
        raise UserError("the running daemon is older than the console", hint=hint, exit_code=75) from error


def _browser() -> list[str] | None:
    """The command that opens a page; None without a screen, or on another machine's."""
    own = os.environ.get("BROWSER", "").partition(os.pathsep)[0]
    if own:
        with suppress(ValueError):  # quotation marks that do not match
            return shlex.split(own)
    if sys.platform == "darwin":
        return ["open"]
    has_screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if not has_screen or os.environ.get("SSH_CONNECTION"):
        return None
    found = next(filter(shutil.which, ("xdg-open", "x-www-browser", "firefox", "chromium")), None)
    return [found] if found else None


def _start(command: list[str], address: str) -> bool:
    """Start the browser; what it prints is not ours."""
    words = [word.replace("%s", address) for word in command]
    if words == command:
        words.append(address)
    quiet = subprocess.DEVNULL
    try:
        subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    except OSError:
        return False
    return True


def _explain_tunnel(url: str) -> None:
    port = urlsplit(url).port
    if os.environ.get("SSH_CONNECTION"):
        print(
            f"hint: on your machine: ssh -N -L {port}:127.0.0.1:{port} THIS_HOST, then open the link", file=sys.stderr
        )
