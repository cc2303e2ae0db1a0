"""Configures OpenCode so that it asks before it does anything that has an effect.

Invariants: our rules come last, as the last match decides: those in the server's configuration for sub-agents, those
of a session for the agent itself; a repository's own configuration (servers, plugins, agents, permissions) has no
effect, because its plugins would run without asking; secrets are only in the environment; without the plugin that
refuses what OpenCode would not ask about (`guard.js`), it is not started.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

INSTALL = "npm install -g opencode-ai"
USER = "opencode"
Action = Literal["allow", "ask", "deny"]

# Reading in the workspace; anything outside is asked about as external_directory.
READ_ONLY = ("read", "glob", "grep", "list", "todoread", "todowrite")
# Files that are likely to contain secrets need permission all the same.
ENV_FILES: dict[str, Action] = {"*": "allow", "*.env": "ask", "*.env.*": "ask", "*.env.example": "allow"}
# Named in addition to "*": a name in the user's own file would come after it.
ASKED = ("edit", "bash", "webfetch", "websearch", "codesearch", "external_directory", "doom_loop", "skill", "lsp")
# Nobody can answer its questions, and we decide the mode.
DENIED = ("question", "plan_enter", "plan_exit")
HELPERS = ("general", "explore")
"""The sub-agents whose permissions we know; general has the same ones as the agent itself."""


GUARD = "@guard@"
"""Stands for the plugin's path in the configuration."""
# The plugin is written to wherever OpenCode will run.
_WITH_GUARD = """\
set -e
folder=${XDG_CACHE_HOME:-$HOME/.cache}/buddy
umask 077
mkdir -p "$folder"
guard=$folder/opencode-guard.$$.mjs
printf %s "$BUDDY_GUARD" | base64 -d > "$guard"
test -s "$guard"
mv -f "$guard" "$folder/opencode-guard.mjs"
guard=$folder/opencode-guard.mjs
OPENCODE_CONFIG_CONTENT=${OPENCODE_CONFIG_CONTENT%%@guard@*}$guard${OPENCODE_CONFIG_CONTENT#*@guard@}
export OPENCODE_CONFIG_CONTENT
unset BUDDY_GUARD
exec "$@"
"""


def permissions() -> dict[str, Action | dict[str, Action]]:
    """The server's own rules, in the order in which the last match decides."""
    rules: dict[str, Action | dict[str, Action]] = {"*": "ask"}
    rules |= dict.fromkeys(READ_ONLY, "allow")
    rules |= dict.fromkeys(ASKED, "ask")
    rules |= dict.fromkeys(DENIED, "deny")
    return {**rules, "read": {**ENV_FILES}, "task": "ask"}


def session_rules(*, plan: bool) -> list[dict[str, str]]:
    """The rules of one session, which follow those of its agent."""
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
            # A formatter or a language server from the repository would run without asking.
            "formatter": False,
            "lsp": False,
            "plugin": [f"file://{GUARD}"],
            "permission": rules,
            "agent": {
                "build": {"permission": rules},
                "plan": {"permission": {**rules, "edit": "deny"}},
                "general": {"permission": rules},
                "explore": {"permission": {**rules, "edit": "deny"}},
            },
        }
    )


def with_guard(words: Sequence[str]) -> list[str]:
    """The command that starts OpenCode with its plugin in place, on any target; its environment is `environment`."""
    return ["sh", "-c", _WITH_GUARD, "sh", *words]


def environment(password: str) -> Mapping[str, str]:
    return {
        "OPENCODE_SERVER_PASSWORD": password,
        "OPENCODE_SERVER_USERNAME": USER,
        "OPENCODE_CONFIG_CONTENT": config().decode(),
        "BUDDY_GUARD": _guard(),
        "OPENCODE_PERMISSION": msgspec.json.encode(permissions()).decode(),
        "OPENCODE_DISABLE_PROJECT_CONFIG": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_SHARE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    }


@cache
def _guard() -> str:
    """In base64, because a value of several lines cannot be passed to every target."""
    return b64encode(Path(__file__).with_name("guard.js").read_bytes()).decode()


def _rule(name: str, pattern: str, action: Action) -> dict[str, str]:
    return {"permission": name, "pattern": pattern, "action": action}
