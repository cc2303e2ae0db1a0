"""Known ACP agents by name: how to start, install and log in to each, and which files of a repository they obey."""

from msgspec import Struct


class Preset(Struct, frozen=True):
    command: str
    install: str
    login: str
    settings: tuple[str, ...] = ()
    """Files in a workspace that make it run something without asking."""


PRESETS = {
    "opencode": Preset("opencode acp", "npm install -g opencode-ai", "opencode auth login"),
    "droid": Preset("droid exec --output-format acp", "npm install -g droid", "set FACTORY_API_KEY, or run droid once"),
    "gemini": Preset(
        "gemini --acp",
        "npm install -g @google/gemini-cli",
        "set GEMINI_API_KEY, or run gemini once",
        (".gemini/settings.json", ".gemini/.env"),
    ),
    "codex": Preset(
        "codex-acp",
        "npm install -g @zed-industries/codex-acp",
        "codex login, or set OPENAI_API_KEY",
        (".codex/config.toml", ".codex/rules"),
    ),
    "claude": Preset(
        "claude-agent-acp",
        "npm install -g @agentclientprotocol/claude-agent-acp",
        "set ANTHROPIC_API_KEY",
        (".claude/settings.json", ".claude/settings.local.json", ".mcp.json"),
    ),
}
