"""What an editor sends, as far as it is read here; unknown fields are ignored."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from buddy.editor.json_rpc import INVALID_PARAMS, Json, RpcError, is_object


class Shape(Struct, frozen=True, rename="camel"):
    """camelCase on the wire."""


class FileSystem(Shape, frozen=True):
    read_text_file: bool = False
    write_text_file: bool = False


class ClientCapabilities(Struct, frozen=True):
    """What an editor can do; every part may be absent, or null."""

    fs: FileSystem | None = None
    terminal: bool = False
    session: dict[str, Any] | None = None
    auth: dict[str, Any] | None = None
    elicitation: dict[str, Any] | None = None
    meta: dict[str, Any] | None = msgspec.field(name="_meta", default=None)

    @property
    def reads_files(self) -> bool:
        return self.fs is not None and self.fs.read_text_file

    @property
    def writes_files(self) -> bool:
        return self.fs is not None and self.fs.write_text_file

    @property
    def shows_terminals(self) -> bool:
        """Whether it draws a terminal that only exists as text, an extension of some editors."""
        return bool((self.meta or {}).get("terminal_output"))

    @property
    def has_boolean_options(self) -> bool:
        options = (self.session or {}).get("configOptions")
        return is_object(options) and options.get("boolean") is not None

    @property
    def shows_notices(self) -> bool:
        return (self.session or {}).get("notices") is not None

    @property
    def has_login_terminal(self) -> bool:
        return bool((self.auth or {}).get("terminal"))

    def elicits(self, mode: str) -> bool:
        return (self.elicitation or {}).get(mode) is not None


class Initialize(Shape, frozen=True):
    protocol_version: int
    client_capabilities: ClientCapabilities | None = None


class Authenticate(Shape, frozen=True):
    method_id: str


class NewSession(Shape, frozen=True):
    cwd: str
    mcp_servers: tuple[dict[str, Any], ...] | None = None


class OpenSession(NewSession, frozen=True, kw_only=True):
    """Load or resume a session."""

    session_id: str


class NamedSession(Shape, frozen=True):
    """Cancel, close or delete a session."""

    session_id: str


class ListSessions(Shape, frozen=True):
    cwd: str | None = None
    cursor: str | None = None


class Prompt(Shape, frozen=True):
    session_id: str
    prompt: tuple[dict[str, Any], ...]


class SetMode(Shape, frozen=True):
    session_id: str
    mode_id: str


class SetConfigOption(Shape, frozen=True):
    session_id: str
    config_id: str
    value: str | bool


AnyShape = TypeVar("AnyShape", bound=Struct)


def read(params: Json, shape: type[AnyShape]) -> AnyShape:
    """The parameters of a request; the error says which field is wrong."""
    try:
        return msgspec.convert(params, shape)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"invalid parameters: {error}") from error
