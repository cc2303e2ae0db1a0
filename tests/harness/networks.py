"""Hosts with networks of their own on this machine: a server, and others that reach nothing but the server.

Each host is a network namespace with one cable to the server's. A cable can be unplugged, which both ends see, or cut
silently: packets are sent to an address that nobody has, so both ends only notice that nothing comes.
"""

import os
import secrets
import subprocess
from types import TracebackType
from typing import Self

import pytest

SERVER = "10.77.0.1"
NOBODY = "02:00:00:00:00:99"


class Network:
    """Use it as `with Network() as network`."""

    def __init__(self) -> None:
        self._tag = f"buddy-{secrets.token_hex(3)}"
        self._hosts: list[str] = []

    def __enter__(self) -> Self:
        if os.geteuid() != 0 or not _is_possible(f"{self._tag}-probe"):
            pytest.skip("needs to make network namespaces")
        _ip("netns", "add", self._tag)
        _ip("-n", self._tag, "link", "set", "dev", "lo", "up")
        _ip("-n", self._tag, "address", "add", f"{SERVER}/32", "dev", "lo")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for namespace in (*map(self._namespace, self._hosts), self._tag):
            _ip("netns", "delete", namespace)

    @property
    def on_server(self) -> list[str]:
        """What to write before a command that runs on the server."""
        return ["ip", "netns", "exec", self._tag]

    def add(self, host: str) -> list[str]:
        """A host; returns what to write before a command that runs on it."""
        self._hosts.append(host)
        near, far, namespace = self._near(host), self._far(host), self._namespace(host)
        _ip("netns", "add", namespace)
        _ip("link", "add", "cable", "netns", namespace, "type", "veth", "peer", "name", host, "netns", self._tag)
        for place, device, address in ((self._tag, host, near), (namespace, "cable", far)):
            _ip("-n", place, "address", "add", f"{address}/30", "dev", device)
            _ip("-n", place, "link", "set", "dev", device, "up")
        _ip("-n", namespace, "link", "set", "dev", "lo", "up")
        _ip("-n", namespace, "route", "add", SERVER, "via", near)
        return ["ip", "netns", "exec", namespace]

    def cut(self, host: str) -> None:
        """Lose all packets in both directions; neither end notices why."""
        for place, device, address in self._ends(host):
            _ip("-n", place, "neighbour", "replace", address, "lladdr", NOBODY, "dev", device, "nud", "permanent")

    def mend(self, host: str) -> None:
        for place, device, address in self._ends(host):
            _ip("-n", place, "neighbour", "delete", address, "dev", device)

    def unplug(self, host: str) -> None:
        """Take the cable out on the host's side."""
        _ip("-n", self._namespace(host), "link", "set", "dev", "cable", "down")

    def plug_in(self, host: str) -> None:
        _ip("-n", self._namespace(host), "link", "set", "dev", "cable", "up")
        _ip("-n", self._namespace(host), "route", "replace", SERVER, "via", self._near(host))

    def _ends(self, host: str) -> list[tuple[str, str, str]]:
        """Of each end: where it is, its device, and the address at the other end."""
        return [(self._tag, host, self._far(host)), (self._namespace(host), "cable", self._near(host))]

    def _namespace(self, host: str) -> str:
        return f"{self._tag}-{host}"

    def _near(self, host: str) -> str:
        return f"10.77.{self._hosts.index(host) + 1}.1"

    def _far(self, host: str) -> str:
        return f"10.77.{self._hosts.index(host) + 1}.2"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=30)


def _is_possible(name: str) -> bool:
    try:
        _ip("netns", "add", name)
        _ip("netns", "delete", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
