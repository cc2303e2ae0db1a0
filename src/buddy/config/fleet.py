"""Settings for several users and several nodes: `[auth]`, `[node]`, `[cluster]`.

Invariant: the defaults are those of one daemon with one owner.
"""

from typing import Literal

from buddy.config.tables import Positive, Seconds, Table


class AuthSettings(Table, frozen=True):
    """`[auth]`. With `mode = "jwt"`, the web listener accepts JSON Web Tokens of one issuer: the `sub` of a token is
    the user. Keys come from `jwks_url`, or from `jwks_file`, which is read again when it changes."""

    mode: Literal["token", "jwt"] = "token"
    issuer: str = ""
    audience: str = ""
    jwks_url: str = ""
    jwks_file: str = ""

    def __post_init__(self) -> None:
        if self.mode == "token":
            return
        missing = [name for name in ("issuer", "audience") if not getattr(self, name)]
        if missing:
            raise ValueError(f'mode = "jwt" requires {" and ".join(missing)}')
        if bool(self.jwks_url) == bool(self.jwks_file):
            raise ValueError('mode = "jwt" requires either jwks_url or jwks_file')
        if self.jwks_url and not self.jwks_url.startswith(("https://", "http://")):
            raise ValueError("jwks_url must start with https:// or http://")


class NodeSettings(Table, frozen=True):
    """`[node]`. `name` defaults to the host name; `max_runs` limits the runs of this node; `labels` describe it.
    `public_url` is the address of a front with TLS, under which browsers reach this node and others."""

    name: str = ""
    gateway: bool = True
    worker: bool = True
    max_runs: Positive | None = None
    labels: tuple[str, ...] | dict[str, str] = ()
    public_url: str = ""

    def __post_init__(self) -> None:
        scheme, _, host = self.public_url.removesuffix("/").partition("://")
        if self.public_url and (scheme not in ("https", "http") or not host or set(host) & set("/?#@ ")):
            raise ValueError("public_url must be a scheme and a host, such as https://buddy.example.com")

    @property
    def label_list(self) -> tuple[str, ...]:
        """The labels as `name` or `name=value`."""
        if isinstance(self.labels, tuple):
            return self.labels
        return tuple(f"{name}={value}" for name, value in self.labels.items())


class TemporalSettings(Table, frozen=True):
    """`[cluster.temporal]`, for `placement = "temporal"`. All nodes of a fleet, and no others, share a task queue."""

    address: str = "127.0.0.1:7233"
    namespace: str = "default"
    task_queue: str = "buddy"


class ClusterSettings(Table, frozen=True):
    """`[cluster]`, for nodes that share a log. A node that is silent for `lease_seconds` loses its sessions. Those with
    a local target belong to their node: after `lost_node_seconds` without it their run fails, or with
    `lost_node = "wait"` waits for it."""

    placement: Literal["postgres", "temporal"] = "postgres"
    temporal: TemporalSettings = TemporalSettings()
    lease_seconds: Seconds = 3.0
    lost_node: Literal["fail", "wait"] = "fail"
    lost_node_seconds: Seconds = 30.0
