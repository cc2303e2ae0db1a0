"""The real agents from npm, offline: where they are, what they need to stay off the network, and a model for them.

Invariants: they talk only to a model on loopback; each test has a home directory of its own.
"""

import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness.fake_model import Answer, FakeModel, Request, calls, says

PROGRAMS = Path(os.environ.get("BUDDY_AGENTS_DIR") or Path.home() / ".cache" / "buddy-agents") / "node_modules" / ".bin"

QUIET = {
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "npm_config_offline": "true",
    "npm_config_registry": "http://127.0.0.1:9",
    "FACTORY_AIRGAP_ENABLED": "1",
    "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
}


def program(name: str) -> Path:
    """The installed program; skips the test if it is missing."""
    found = PROGRAMS / name
    if not os.access(found, os.X_OK):
        pytest.skip(f"{name} is not installed: npm install --prefix {PROGRAMS.parents[1]} {name}")
    return found


def obey(request: Request) -> Answer:
    """Obey the commands of `agents`: `run COMMAND` is one shell call, `say TEXT` is a reply."""
    body = request.body
    said = [_text(message) for message in body["messages"] if message["role"] == "user"]
    tools = {tool["function"]["name"] for tool in body.get("tools") or ()}
    if body["messages"][-1]["role"] == "tool" or not tools:
        return Answer(says("done" if tools else "A title"))
    if said and "That was not allowed" in said[-1]:
        return Answer(says(f"I heard: {said[-1]}"))
    word, _, rest = next(
        (text for text in reversed(said) if text.startswith(("run ", "say "))), "say nothing"
    ).partition(" ")
    if word == "say":
        return Answer(says(rest))
    shell = next(name for name in ("bash", "Execute", "run_shell") if name in tools)
    extra = (
        {"description": "a test"}
        if shell == "bash"
        else {"summary": "a test", "riskLevelReason": "a test", "riskLevel": "low"}
    )
    return Answer(calls((shell, json.dumps({"command": rest, **extra}))))


@asynccontextmanager
async def at_home(
    home: Path, monkeypatch: pytest.MonkeyPatch, script: Callable[[Request], Answer] = obey
) -> AsyncGenerator[FakeModel]:
    """A home directory in which both agents use one model on loopback, set in this process's environment."""
    async with FakeModel(script) as model:
        _write(
            home / ".config" / "opencode" / "opencode.json",
            {
                "model": "fake/fake-1",
                "small_model": "fake/fake-1",
                "autoupdate": False,
                "provider": {
                    "fake": {
                        "npm": "@ai-sdk/openai-compatible",
                        "options": {"baseURL": model.base_url, "apiKey": "none"},
                        "models": {
                            "fake-1": {
                                "name": "Fake",
                                "tool_call": True,
                                "attachment": True,
                                "modalities": {"input": ["text", "image"], "output": ["text"]},
                                "limit": {"context": 128000, "output": 8192},
                            }
                        },
                    }
                },
            },
        )
        fake = {
            "model": "fake-1",
            "displayName": "Fake",
            "baseUrl": model.base_url,
            "apiKey": "none",
            "provider": "generic-chat-completion-api",
            "maxOutputTokens": 8192,
            "noImageSupport": False,
        }
        _write(home / ".factory" / "settings.json", {"customModels": [fake], "model": "custom:Fake-0"})
        for name, value in {**QUIET, "HOME": str(home), "PATH": f"{PROGRAMS}:{os.environ['PATH']}"}.items():
            monkeypatch.setenv(name, value)
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            monkeypatch.delenv(name, raising=False)
        yield model


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))


def _text(message: dict[str, Any]) -> str:
    content: str | list[dict[str, Any]] = message["content"] or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
