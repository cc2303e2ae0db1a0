"""Hosts with networks of their own on this machine: servers, and others that reach nothing but the servers.

Each host is a network namespace with a cable to each server's. A cable can be unplugged, which both ends see, or cut
silently: packets are sent to an address that nobody has, so both ends only notice that nothing comes.
"""

import os
import secrets
import subprocess
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import pytest

DATABASE, TEMPORAL = "database", "temporal"
SERVERS = {DATABASE: "10.77.0.1", TEMPORAL: "10.78.0.1"}
NOBODY = "02:00:00:00:00:99"


class Network:
    """Use it as `with Network() as network`."""

    def __init__(self) -> None:
        self._tag = f"buddy-{secrets.token_hex(3)}"
        self._hosts: list[str] = []

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or not _is_possible(f"{self._tag}-probe"):
            pytest.skip("needs to make network namespaces")
        for server, address in SERVERS.items():
            namespace = self._namespace(server)
            _ip("netns", "add", namespace)
            _ip("-n", namespace, "link", "set", "dev", "lo", "up")
            _ip("-n", namespace, "address", "add", f"{address}/32", "dev", "lo")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in (*self._hosts, *SERVERS):
            _ip("netns", "delete", self._namespace(name))

    def on(self, name: str) -> list[str]:
        """What to write before a command that runs on a host or server."""
        return ["ip", "netns", "exec", self._namespace(name)]

    def add(self, host: str) -> list[str]:
        """A host; returns what to write before a command that runs on it."""
        self._hosts.append(host)
        namespace = self._namespace(host)
        _ip("netns", "add", namespace)
        _ip("-n", namespace, "link", "set", "dev", "lo", "up")
        for server in SERVERS:
            at_server = ("peer", "name", host, "netns", self._namespace(server))
            _ip("link", "add", server, "netns", namespace, "type", "veth", *at_server)
            for place, device, own, _ in self._ends(host, server):
                _ip("-n", place, "address", "add", f"{own}/30", "dev", device)
                _ip("-n", place, "link", "set", "dev", device, "up")
            self._set_route(host, server)
        return self.on(host)

    def cut(self, host: str, servers: Iterable[str] = SERVERS) -> None:
        """Lose all packets in both directions; neither end notices why."""
        for server in servers:
            for place, device, _, other in self._ends(host, server):
                _ip("-n", place, "neighbour", "replace", other, "lladdr", NOBODY, "dev", device, "nud", "permanent")

    def mend(self, host: str, servers: Iterable[str] = SERVERS) -> None:
        for server in servers:
            for place, device, _, other in self._ends(host, server):
                _ip("-n", place, "neighbour", "delete", other, "dev", device)

    def unplug(self, host: str, servers: Iterable[str] = SERVERS) -> None:
        """Take the cables out on the host's side."""
        for server in servers:
            _ip("-n", self._namespace(host), "link", "set", "dev", server, "down")

    def plug_in(self, host: str, servers: Iterable[str] = SERVERS) -> None:
        for server in servers:
            _ip("-n", self._namespace(host), "link", "set", "dev", server, "up")
            self._set_route(host, server)

    def _set_route(self, host: str, server: str) -> None:
        near = self._address(host, server, 1)
        _ip("-n", self._namespace(host), "route", "replace", SERVERS[server], "via", near)

    def _ends(self, host: str, server: str) -> list[tuple[str, str, str, str]]:
        """Of each end of a cable: where it is, its device, its address, and that of the other end."""
        near, far = self._address(host, server, 1), self._address(host, server, 2)
        return [(self._namespace(server), host, near, far), (self._namespace(host), server, far, near)]

    def _namespace(self, name: str) -> str:
        return f"{self._tag}-{name}"

    def _address(self, host: str, server: str, end: int) -> str:
        return f"{SERVERS[server].rsplit('.', 2)[0]}.{self._hosts.index(host) + 1}.{end}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


def _is_possible(name: str) -> bool:
    try:
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
