"""Peers that have connected and not shown a valid token yet.

Invariants: their number is bounded; past it, the one that has waited longest is disconnected, of the address that has
most of them, so that idle connections never keep out a peer with a token.
"""

import asyncio

MAX_WAITING = 256
Address = tuple[str, int]


class WaitingPeers:
    def __init__(self, limit: int = MAX_WAITING) -> None:
        self._limit = limit
        self._count = 0
        self._by_host: dict[str, dict[Address, asyncio.Transport]] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, address: Address, transport: asyncio.Transport) -> None:
        if self._count >= self._limit:
            self._shed()
        self._by_host.setdefault(address[0], {})[address] = transport
        self._count += 1

    def touch(self, address: Address) -> None:
        """The peer sent a complete request, so others have been idle longer."""
        peers = self._by_host.get(address[0], {})
        if address in peers:
            peers[address] = peers.pop(address)

    def discard(self, address: Address) -> None:
        """The peer was admitted, or is gone."""
        peers = self._by_host.get(address[0], {})
        if peers.pop(address, None) is not None:
            self._count -= 1
        if not peers:
            self._by_host.pop(address[0], None)

    def _shed(self) -> None:
        most = max(self._by_host.values(), key=len)
        address, transport = next(iter(most.items()))
        self.discard(address)
        transport.abort()
