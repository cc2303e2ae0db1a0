"""The settings of `buddy.toml`, one frozen struct per table.

Invariants: every field has a default, so an empty file is a complete configuration; an unknown key or a wrong type
is rejected; a profile names at most one source for its key, and no `repr` shows a key.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from buddy.config.fleet import AuthSettings, ClusterSettings, NodeSettings
from buddy.config.mcp import McpSettings
from buddy.config.notify import NotifySettings
from buddy.config.tables import Positive, Seconds, Table

Api = Literal["completions", "responses", "anthropic", "gemini", "scripted"]
Auth = Literal["api-key", "login"]
Price = Annotated[float, Meta(ge=0)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
Share = Annotated[float, Meta(ge=0, le=1)]

KEY_SOURCES = ("api_key", "api_key_env", "api_key_file")
DEFAULT_MAX_TURNS = 50
LOCAL_URL = "local:"
"""The address of the model that is built in."""
SCHEMES = ("http://", "https://", LOCAL_URL)


class Profile(Table, frozen=True):
    """`[models.<name>]`. Prices are in USD per million tokens; `script` is the file that a scripted model plays;
    `issuer` and `client_id` configure `auth = "login"` (default: OpenAI); failures are retried for `retry_seconds`;
    `vision` says whether the model takes images, if its server does not; `base_url` is an alias of `api_base_url`."""

    api_base_url: str = ""
    api: Api = "completions"
    auth: Auth = "api-key"
    api_key: str = ""
    api_key_env: str = ""
    api_key_file: str = ""
    model: str = ""
    context_limit: Positive | None = None
    script: str = ""
    input_price: Price | None = None
    output_price: Price | None = None
    issuer: str = ""
    client_id: str = ""
    retry_seconds: Annotated[float, Meta(ge=0)] | None = None
    vision: bool | None = None
    base_url: str = ""

    def __post_init__(self) -> None:
        if self.base_url:
            if self.api_base_url not in ("", self.base_url):
                raise ValueError("base_url is an alias of api_base_url: set only one of them")
            force_setattr(self, "api_base_url", self.base_url)
            force_setattr(self, "base_url", "")
        if self.issuer and not self.client_id:
            raise ValueError("issuer requires client_id")
        given = [name for name, value in zip(KEY_SOURCES, self._keys(), strict=True) if value]
        if len(given) > 1:
            raise ValueError(f"a profile has only one key source, not {' and '.join(given)}")

    def __repr__(self) -> str:
        return f"Profile(api={self.api!r}, api_base_url={self.api_base_url!r}, model={self.model!r})"

    def _keys(self) -> tuple[str, str, str]:
        return self.api_key, self.api_key_env, self.api_key_file


class AgentSettings(Table, frozen=True):
    """`[agent]`. `model` names the active profile; `max_iterations` is an alias of `max_turns`; without an
    `approval_timeout_seconds`, approvals expire in headless sessions only; with `approval_timeout = "park"` they never
    do, and a run that waits takes no memory. `sandbox` and `approve` take the place of `--sandbox` and `--approve` for
    new sessions on this machine."""

    model: str = ""
    system_prompt: str = ""
    max_turns: Positive = DEFAULT_MAX_TURNS
    max_iterations: Positive | None = None
    temperature: Temperature | None = None
    top_p: Share | None = None
    approval_timeout_seconds: Seconds | None = None
    approval_timeout: Literal["park"] | None = None
    sandbox: Literal["host", "confined"] | None = None
    approve: Literal["ask", "auto", "all", "none"] | None = None

    @property
    def parks(self) -> bool:
        return self.approval_timeout == "park"

    @property
    def approval_seconds(self) -> float | None:
        """How long approvals wait; None depends on the session's mode."""
        return float("inf") if self.parks else self.approval_timeout_seconds

    def __post_init__(self) -> None:
        if self.parks and self.approval_timeout_seconds:
            raise ValueError('approvals are parked without a deadline: set approval_timeout = "park" or the seconds')
        if self.max_iterations is None:
            return
        if self.max_turns not in (DEFAULT_MAX_TURNS, self.max_iterations):
            raise ValueError("max_iterations is an alias of max_turns: set only one of them")
        force_setattr(self, "max_turns", self.max_iterations)
        force_setattr(self, "max_iterations", None)


class ToolSettings(Table, frozen=True):
    shell_enabled: bool = True
    files_enabled: bool = True
    fetch_enabled: bool = True
    search_enabled: bool = True
    shell_confirm: bool = True


class DisplaySettings(Table, frozen=True):
    color: bool = True
    show_tokens: bool = False
    show_tool_calls: bool = True


class ServerSettings(Table, frozen=True):
    agent_runtime: str = "native"


class LogSettings(Table, frozen=True):
    """Where the log is: SQLite in the state directory, or `url` of a PostgreSQL database that several daemons share."""

    url: str = ""


class MemorySettings(Table, frozen=True):
    """`[memory]`. `embeddings` is `local` (the installed model), `none`, or a profile whose server offers
    `/embeddings`, called with `embedding_model`."""

    enabled: bool = True
    top_k: Annotated[int, Meta(ge=1, le=8)] = 8
    vector_weight: Share = 0.7
    text_weight: Share = 0.3
    embeddings: str = "local"
    embedding_model: str = ""

    def __post_init__(self) -> None:
        if abs(self.vector_weight + self.text_weight - 1.0) > 1e-6:
            raise ValueError("vector_weight and text_weight must sum to 1")
        if self.embeddings not in ("local", "none") and not self.embedding_model:
            raise ValueError("embeddings names a profile, so embedding_model is required")


class CheckpointSettings(Table, frozen=True):
    """`[checkpoints]`. Files above `max_file_mb` are not kept, nor is more than `max_total_mb` in all; a workspace is
    watched up to `max_files`; what is older than `keep_days` is removed."""

    enabled: bool = True
    max_file_mb: Positive = 32
    max_total_mb: Positive = 2048
    max_files: Positive = 100_000
    keep_days: Seconds = 14.0


class StorageSettings(Table, frozen=True):
    """`[storage]`. The daemon removes sessions that were not used for `keep_days`, and the oldest while all
    sessions together take more than `max_total_mb`; unless one of them is set, it removes none."""

    keep_days: Positive | None = None
    max_total_mb: Positive | None = None


class Config(Struct, frozen=True):
    """The complete file and its path (empty if there is none); relative paths in it start from its folder."""

    models: dict[str, Profile] = field(default_factory=dict[str, Profile])
    agent: AgentSettings = AgentSettings()
    tools: ToolSettings = ToolSettings()
    display: DisplaySettings = DisplaySettings()
    server: ServerSettings = ServerSettings()
    memory: MemorySettings = MemorySettings()
    log: LogSettings = LogSettings()
    mcp: McpSettings = McpSettings()
    auth: AuthSettings = AuthSettings()
    node: NodeSettings = NodeSettings()
    cluster: ClusterSettings = ClusterSettings()
    checkpoints: CheckpointSettings = CheckpointSettings()
    storage: StorageSettings = StorageSettings()
    notify: NotifySettings = NotifySettings()
    permissions: dict[str, Any] = field(default_factory=dict[str, Any])
    limits: dict[str, Any] = field(default_factory=dict[str, Any])
    source: str = ""
