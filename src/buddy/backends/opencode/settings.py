"""How OpenCode is set up so that it asks before it does anything that has an effect.

Invariants: our rules come after everyone else's, as the last match decides: those of the server's whole
configuration for its sub-agents, those of a session for what it does itself; what a repository configures (servers,
plugins, agents, permissions) has no effect, because its plugins would run without a question; secrets are in the
environment alone.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

INSTALL = "npm install -g opencode-ai"
USER = "opencode"
Action = Literal["allow", "ask", "deny"]

# Looking around in the workspace. What lies outside is asked as external_directory.
READ_ONLY = ("read", "glob", "grep", "list", "todoread", "todowrite")
# Whose content is likely to be a secret is asked for all the same.
ENV_FILES: dict[str, Action] = {"*": "allow", "*.env": "ask", "*.env.*": "ask", "*.env.example": "allow"}
# Named besides "*": a name in a user's own file would come after it.
ASKED = ("edit", "bash", "webfetch", "websearch", "codesearch", "external_directory", "doom_loop", "skill", "lsp")
# Nobody is there to answer its questions; what mode it works in is decided by us.
DENIED = ("question", "plan_enter", "plan_exit")
HELPERS = ("general", "explore")
"""The sub-agents whose permissions we know; general may do all that the agent itself may."""


def permissions() -> dict[str, Action | dict[str, Action]]:
    """The server's own rules, in the order in which the last match decides."""
    rules: dict[str, Action | dict[str, Action]] = {"*": "ask"}
    rules |= dict.fromkeys(READ_ONLY, "allow")
    rules |= dict.fromkeys(ASKED, "ask")
    rules |= dict.fromkeys(DENIED, "deny")
    return {**rules, "read": {**ENV_FILES}, "task": "ask"}


def session_rules(*, plan: bool) -> list[dict[str, str]]:
    """The rules of one session, which come after those of its agent."""
    helpers = [name for name in HELPERS if not (plan and name == "general")]
    return [
        _rule("*", "*", "ask"),
        *(_rule(name, "*", "allow") for name in READ_ONLY),
        *(_rule("read", pattern, action) for pattern, action in ENV_FILES.items()),
        *(_rule(name, "*", "deny") for name in (*DENIED, "task", *(("edit",) if plan else ()))),
        *(_rule("task", name, "ask") for name in helpers),
    ]


def config() -> bytes:
    rules = permissions()
    return msgspec.json.encode(
        {
            "autoupdate": False,
            "share": "disabled",
            # A formatter or a language server of the repository's own would run without a question.
            "formatter": False,
            "lsp": False,
            "permission": rules,
            "agent": {
                "build": {"permission": rules},
                "plan": {"permission": {**rules, "edit": "deny"}},
                "general": {"permission": rules},
                "explore": {"permission": {**rules, "edit": "deny"}},
            },
        }
    )


def environment(password: str) -> Mapping[str, str]:
    return {
        "OPENCODE_SERVER_PASSWORD": password,
        "OPENCODE_SERVER_USERNAME": USER,
        "OPENCODE_CONFIG_CONTENT": config().decode(),
        "OPENCODE_PERMISSION": msgspec.json.encode(permissions()).decode(),
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_SHARE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


def _rule(name: str, pattern: str, action: Action) -> dict[str, str]:
    return {"permission": name, "pattern": pattern, "action": action}
