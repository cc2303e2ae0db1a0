"""`buddy daemon install`: the daemon as a systemd service of the user, which starts it again after a crash.

Invariants: the unit contains no key; whatever is in a path or a flag stays one argument of the command.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from buddy.cli.options import Options
from buddy.cli.settings import read_config
from buddy.config.paths import config_path
from buddy.config.settings import Config
from buddy.daemon.opening import has_password, log_url_of
from buddy.errors import UserError

NAME = "buddy.service"
KEYS_FILE = "daemon.env"
# What decides where the daemon finds its files, its programs and its proxies; keys come from elsewhere.
PASSED_ON = ("PATH", "XDG_CONFIG_HOME", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")
_PLAIN = re.compile(r"[\w@+=:,./-]+", re.ASCII)

UNIT = """\
# Written by `buddy daemon install`, which also replaces it; `buddy daemon install --remove` removes it.
[Unit]
Description=Buddy daemon (durable AI-agent sessions)

[Service]
Type=exec
ExecStart={command}
WorkingDirectory=/
UMask=0077
{environment}# API keys, one NAME=value per line; see docs/guide.md for the other places a key can come from.
EnvironmentFile=-{keys}
# After a crash it is started again, and what was in flight continues. Not after a wrong configuration (64), or while
# another daemon is running (75).
Restart=on-failure
RestartSec=1
RestartPreventExitStatus=64 75
# Commands in tmux panes survive a crash, so that the next daemon finds them again.
KillMode=process
TimeoutStopSec=20
# Commands get control groups of their own.
Delegate=yes

[Install]
WantedBy=default.target
"""


def install(options: Options, flags: list[str], *, is_running: bool) -> int:
    """Write the unit and start it; `flags` are those of `daemon run`; `is_running`: there is a daemon already."""
    if options.remove:
        return _remove()
    if not options.config and os.environ.get("BUDDY_CONFIG"):
        flags = [*flags, "--config", str(_config_file(options))]
    config = read_config(options)  # report errors in it here rather than in a log
    flags = [*flags, *_log_flags(options, config)]
    text = unit_text([sys.executable, "-P", "-m", "buddy", "daemon", "run", *flags], os.environ, _keys_file(options))
    if options.print:
        print(text, end="")
        return 0
    path = unit_path(os.environ)
    _write(path, text)
    print(f"wrote {path}", file=sys.stderr)
    enable = ["systemctl", "--user", "enable", "--now", NAME]
    if not _has_systemd():
        print("no systemd is running for this user, so the service was not started", file=sys.stderr)
        print(f"hint: where it is running: systemctl --user daemon-reload && {' '.join(enable)}", file=sys.stderr)
        return 0
    if is_running and _ask_systemctl("is-active", "--quiet", NAME) != 0:
        raise UserError(
            "a daemon is already running outside of systemd",
            hint=f"buddy daemon stop && systemctl --user daemon-reload && {' '.join(enable)}",
            exit_code=75,
        )
    _systemctl("daemon-reload")
    _systemctl("enable", "--now", NAME)
    print(f"enabled and started {NAME}", file=sys.stderr)
    print("hint: to keep it running while you are logged out: loginctl enable-linger", file=sys.stderr)
    return 0


def unit_text(command: list[str], env: Mapping[str, str], keys: Path) -> str:
    passed = [f"Environment={quote(f'{name}={env[name]}', expands=False)}\n" for name in PASSED_ON if env.get(name)]
    return UNIT.format(
        command=" ".join(map(quote, command)), environment="".join(passed), keys=str(keys).replace("%", "%%")
    )


def unit_path(env: Mapping[str, str]) -> Path:
    """Where systemd looks for the units of a user."""
    return Path(env.get("XDG_CONFIG_HOME") or f"{env.get('HOME', '')}/.config") / "systemd" / "user" / NAME


def quote(word: str, *, expands: bool = True) -> str:
    """One word of a unit file; `expands`: `$` is for variables there, as in a command."""
    if _PLAIN.fullmatch(word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("%", "%%")
    return f'"{escaped.replace("$", "$$") if expands else escaped}"'


def _log_flags(options: Options, config: Config) -> list[str]:
    """The shared log that this shell names; in the file, the daemon finds it itself."""
    named = log_url_of(config, os.environ, options.log)
    if named is None or named == config.log.url:
        return []
    if has_password(named):
        raise UserError(
            "the URL of the log has a password, which does not belong into a unit file",
            hint=f"write it as url in [log] of buddy.toml, or as BUDDY_LOG=… in {_keys_file(options)}",
        )
    return ["--log", named]


def _keys_file(options: Options) -> Path:
    source = _config_file(options)
    return (source.parent if source else Path(config_path(os.environ))) / KEYS_FILE


def _config_file(options: Options) -> Path | None:
    """The file that was named on the command line or in the environment."""
    named = options.config or os.environ.get("BUDDY_CONFIG")
    return Path(named).expanduser().absolute() if named else None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o644)
    new.replace(path)


def _remove() -> int:
    path = unit_path(os.environ)
    if not path.exists():
        raise UserError(f"no service at {path}", hint="buddy daemon install", exit_code=1)
    if _has_systemd():
        _systemctl("disable", "--now", NAME)
    path.unlink()
    if _has_systemd():
        _systemctl("daemon-reload")
    print(f"removed {path}", file=sys.stderr)
    return 0


def _has_systemd() -> bool:
    """Whether a systemd of this user is running, and can be talked to."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return bool(runtime) and (Path(runtime) / "systemd" / "private").is_socket()


def _systemctl(*words: str) -> None:
    if _ask_systemctl(*words) != 0:
        raise UserError(f"systemctl --user {' '.join(words)} failed", hint=f"journalctl --user -u {NAME}", exit_code=1)


def _ask_systemctl(*words: str) -> int:
    try:
        return subprocess.run(["systemctl", "--user", *words], check=False).returncode
    except OSError as error:
        raise UserError(f"systemctl can't be run: {error.strerror}", exit_code=1) from error
