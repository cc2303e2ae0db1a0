"""The published schema of the Agent Client Protocol: what each side may receive, by method."""

import functools
import json
from typing import Any

import jsonschema

from tests.harness.processes import ROOT

Json = dict[str, Any]
SCHEMA = ROOT / "tests" / "editor" / "schema" / "acp-v1.json"


@functools.cache
def _schema() -> Json:
    return json.loads(SCHEMA.read_text(encoding="utf-8"))


@functools.cache
def _validator(definition: str) -> Any:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{definition}", "$defs": _schema()["$defs"]})


@functools.cache
def _definitions() -> dict[tuple[str, str, str], str]:
    """The definition of what a side receives, by side, method and whether it is a request, response or notification."""
    found: dict[tuple[str, str, str], str] = {}
    for name, definition in _schema()["$defs"].items():
        if "x-method" in definition:
            form = next(form for form in ("Request", "Response", "Notification") if name.endswith(form))
            found[definition["x-side"], definition["x-method"], form] = name
    return found


def check(message: Json, side: str, answered: str | None) -> None:
    """Validate what `side` receives; `answered` is the method that a response belongs to."""
    definitions = _definitions()
    if "method" in message:
        form = "Request" if "id" in message else "Notification"
        receiver = "protocol" if message["method"].startswith("$/") else side
        _validator(definitions[receiver, message["method"], form]).validate(message.get("params"))
    elif "error" in message:
        _validator("Error").validate(message["error"])
    elif answered is not None:
        # A response belongs to the side that serves the method.
        server = "agent" if side == "client" else "client"
        _validator(definitions[server, answered, "Response"]).validate(message["result"])
