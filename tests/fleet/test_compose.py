"""The example of a deployment: valid for Compose, and its commands make a fleet when they are run by hand.

Each service is a process on an address of the loopback network, which stands for its name.
"""

import asyncio
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from buddy.config.load import parse_config
from tests.fleet.front import Front
from tests.fleet.nodes import SCRIPT
from tests.harness.clients import send, wire_client
from tests.harness.daemon import Daemon
from tests.harness.jwt_issuer import Issuer
from tests.harness.postgres import NOBODY, Postgres
from tests.harness.processes import PATIENCE, ROOT, free_port, wait_until
from tests.harness.temporal import PROGRAM
from tests.harness.wire_client import WireClient

PASSWORD = "p4ss-w0rd"
PORT = 5432
NODES = ("node-1", "node-2", "node-3")
FILES = (["compose.yaml"], ["compose.yaml", "compose.temporal.yaml"])


def compose(*files: str) -> dict[str, Any]:
    """The services, as Compose reads the files."""
    named = [part for file in files for part in ("-f", str(ROOT / file))]
    env = {"PATH": os.environ["PATH"], "HOME": "/", "BUDDY_DB_PASSWORD": PASSWORD}
    done = subprocess.run(
        ["docker-compose", *named, "config"], env=env, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["services"]


class Composed:
    """The services as processes. What an image does by itself is done here: creating a cluster, finding programs."""

    def __init__(self, folder: Path, *files: str) -> None:
        self.folder = folder
        self.services = compose(*files)
        block = f"127.{random.randint(1, 250)}.{random.randint(0, 250)}"  # noqa: S311 - no secret
        self.addresses = {name: f"{block}.{number}" for number, name in enumerate(sorted(self.services), 1)}
        self.primary, self.standby = self._server("db-1"), self._server("db-2")
        self.nodes = {name: Daemon(folder / name, script=SCRIPT) for name in NODES}
        self.front = Front(folder, free_port())
        self.temporal: subprocess.Popen[bytes] | None = None
        self.temporal_address = ""

    def _server(self, name: str) -> Postgres:
        server = Postgres(listen_addresses=self.addresses[name])
        server.port = PORT
        return server

    def text(self, value: str, service: str = "") -> str:
        """What the file says, with addresses instead of names."""
        value = value.replace("0.0.0.0", self.addresses.get(service, ""))  # noqa: S104 - replaced, not bound
        names = "|".join(sorted(self.addresses, key=len, reverse=True))
        return re.sub(rf"\b({names})\b(?!/)", lambda found: self.addresses[found[1]], value)

    def create_primary(self) -> None:
        server, password = self.primary, self.folder / "password"
        password.write_text(PASSWORD)
        server.make_folders()
        shutil.copy(password, server.folder / "password")
        (server.folder / "password").chmod(0o644)
        access = ("--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={server.folder / 'password'}")
        server.run("initdb", "-D", str(server.data), "-U", "buddy", "-E", "UTF8", "--no-locale", "-N", *access)
        with (server.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")
        script = ROOT / "deploy" / "allow-replication.sh"
        subprocess.run(["sh", script], env={"PGDATA": str(server.data), "PATH": os.environ["PATH"]}, check=True)
        server.start()
        server.run("createdb", "-h", str(server.folder), "-p", str(PORT), "-U", "buddy", "buddy")

    def start_standby(self) -> None:
        """By the script, as the user whom the server runs as."""
        server = self.standby
        server.make_folders()
        settings = {key: self.text(value) for key, value in self.services["db-2"]["environment"].items()}
        env = {**settings, "PGDATA": str(server.data), "AS_POSTGRES": "", "PATH": server.environment["PATH"]}
        more = [part for name, value in server.settings.items() for part in ("-c", f"{name}={value}")]
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--pdeathsig", "INT", "--"]
        script = (ROOT / "deploy" / "standby.sh").read_text()
        with (server.folder / "log").open("ab") as log:
            server.process = subprocess.Popen(
                [*(user if os.geteuid() == 0 else []), "sh", "-c", script, "standby.sh", *more],
                env=env,
                stdout=log,
                stderr=log,
                cwd=server.folder,
            )
        wait_until(server.is_ready, "the standby to answer")

    def replicate(self) -> None:
        service = self.services["replication"]
        env = {key: self.text(value) for key, value in service["environment"].items()}
        program, *arguments = (self.text(part) for part in service["entrypoint"])
        found = shutil.which(program, path=self.primary.environment["PATH"]) or program
        subprocess.run([found, *arguments], env=env, check=True, capture_output=True, timeout=PATIENCE)

    def start_temporal(self) -> None:
        """On another port of 127.0.0.1: the parts of the server look for each other there."""
        command: list[str] = self.services["temporal"]["command"]
        port = free_port()
        self.temporal_address = f"127.0.0.1:{port}"
        replaced = {"0.0.0.0": "127.0.0.1", "/data/temporal.db": str(self.folder / "temporal.db")}  # noqa: S104 - replaced
        assert replaced.keys() < set(command)
        self.temporal = subprocess.Popen(
            [str(PROGRAM), *(replaced.get(part, part) for part in command), "--port", str(port)],
            env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
            stdout=subprocess.DEVNULL,
        )

    def workflows(self) -> str:
        command = [str(PROGRAM), "workflow", "list", "--address", self.temporal_address]
        env = {"HOME": str(self.folder)}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False).stdout

    def settings_of(self, name: str) -> str:
        """The configuration that is mounted into a node."""
        mounted = [volume.split(":") for volume in self.services[name]["volumes"]]
        [source] = [volume[0] for volume in mounted if volume[1] == "/etc/buddy/buddy.toml"]
        text = Path(source).read_text().replace("https://localhost", self.front.origin)
        return text.replace("temporal:7233", self.temporal_address)

    def start_nodes(self, issuer: Issuer) -> None:
        for name, daemon in self.nodes.items():
            service = self.services[name]
            words = ["--state-dir", str(daemon.state_dir), "--config", str(daemon.config)]
            expected = ["--config", "/etc/buddy/buddy.toml", "--state-dir", "/var/lib/buddy"]
            assert service["command"][:2] + service["command"][-4:] == ["daemon", "run", *expected]
            daemon.flags = [self.text(part, name) for part in service["command"][2:-4]]
            assert words == daemon.places()
            written = self.settings_of(name).replace("[node]\n", f'[node]\nname = "{name}"\n')  # that of its host
            daemon.config.write_text(daemon.config.read_text() + written + issuer.settings(daemon.folder / "jwks"))
            settings = {key: self.text(value) for key, value in service["environment"].items()}
            assert "BUDDY_HOST" in settings  # as the front has it, which is on a port of its own here
            daemon.launch(**{**settings, "BUDDY_HOST": self.front.origin})
        for daemon in self.nodes.values():
            wait_until(daemon.is_ready, "the node to answer")

    def stop(self) -> None:
        for daemon in self.nodes.values():
            daemon.stop()
        if self.temporal is not None:
            self.temporal.kill()
            self.temporal.wait()
        self.standby.remove()
        self.primary.remove()


@pytest.mark.needs("docker-compose")
@pytest.mark.parametrize("files", FILES)
def test_compose_accepts_the_files(files: list[str]) -> None:
    services = compose(*files)
    assert set(NODES) < set(services)
    mounted = [volume for service in services.values() for volume in service.get("volumes", ())]
    for source in [volume.partition(":")[0] for volume in mounted if volume.startswith("/")]:
        assert Path(source).is_file(), source


@pytest.mark.parametrize("name", ["buddy.toml", "buddy.temporal.toml"])
def test_front_and_nodes_have_the_same_name_and_the_example_of_users_can_be_used(name: str) -> None:
    text = (ROOT / "deploy" / name).read_text()
    front = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["front"]
    host = re.search(r":-(.+)}", front["environment"]["BUDDY_HOST"])
    assert host and parse_config(text, name).node.public_url == f"https://{host[1]}"
    assert "BUDDY_HOST" in text and "public_url" in (ROOT / "compose.yaml").read_text()
    example = re.sub(r"^# (?=\[auth\]|\w+ = )", "", text, flags=re.MULTILINE)
    assert parse_config(example, name).auth.mode == "jwt"


@pytest.mark.slow
@pytest.mark.needs("docker-compose", "caddy")
@pytest.mark.parametrize("files", FILES, ids=["postgres", "temporal"])
async def test_the_commands_of_the_example_make_a_fleet(files: list[str], tmp_path: Path) -> None:
    fleet, issuer = Composed(tmp_path, *files), Issuer()
    try:
        if "temporal" in fleet.services:
            fleet.start_temporal()
        await asyncio.to_thread(fleet.create_primary)
        await asyncio.to_thread(fleet.start_standby)
        await asyncio.to_thread(fleet.replicate)
        await asyncio.to_thread(fleet.start_nodes, issuer)
        addresses = [fleet.text(part) for part in fleet.services["front"]["environment"]["BUDDY_NODES"].split()]
        with fleet.front.serve(*addresses):
            client = await fleet.front.connect(Authorization=f"Bearer {issuer.token('ann')}", Origin=fleet.front.origin)
            session_id = await begin(client, tmp_path)
            await send(client, session_id, "drip")
            await client.wait_for("assistant_token")
            async with wire_client(fleet.nodes["node-1"]) as owner:
                assert {node["node"] for node in (await owner.ask("list_nodes"))["nodes"]} == set(NODES)
            if "temporal" in fleet.services:
                await asyncio.to_thread(wait_until, lambda: session_id in fleet.workflows(), "the session's workflow")
            # The database fails over, as docs/fleet.md says.
            await asyncio.to_thread(fleet.primary.kill)
            folder = str(fleet.standby.folder)
            fleet.standby.run("psql", "-h", folder, "-U", "buddy", "-d", "buddy", "-c", "SELECT pg_promote()")
            assert (await client.wait_for("run_complete"))["payload"]["outcome"] == "success"
            await client.close()
    finally:
        fleet.stop()


async def begin(client: WireClient, folder: Path) -> str:
    request = {"mode": "interactive", "provider": "default", "sandboxProvider": "local"}
    return (await client.ask("start_session", {**request, "repo": {"rootPath": str(folder)}}))["sessionId"]
