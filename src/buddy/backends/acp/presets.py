"""Known ACP agents by name: how to start, install and log in to each."""

from msgspec import Struct


class Preset(Struct, frozen=True):
    command: str
    install: str
    login: str


PRESETS = {
    "opencode": Preset("opencode acp", "npm install -g opencode-ai", "opencode auth login"),
    "droid": Preset("droid exec --output-format acp", "npm install -g droid", "set FACTORY_API_KEY, or run droid once"),
    "gemini": Preset("gemini --acp", "npm install -g @google/gemini-cli", "set GEMINI_API_KEY, or run gemini once"),
    "codex": Preset("codex-acp", "npm install -g @zed-industries/codex-acp", "codex login, or set OPENAI_API_KEY"),
    "claude": Preset(
        "claude-agent-acp", "npm install -g @agentclientprotocol/claude-agent-acp", "set ANTHROPIC_API_KEY"
    ),
}
