"""What makes programs run later, by name: git, an editor, a shell, another agent, a build server, Buddy itself.

One list for everything that writes: file tools, commands that a rule allows, and confined commands.
"""

# An empty directory replaces what is missing while a confined command runs, even a file: `git add` ignores it, and no
# program mistakes it for a configuration.
REPLACED = (
    *(".vscode", ".envrc", ".husky", ".pre-commit-config.yaml", ".devcontainer", ".claude", ".cursor"),
    *(".github/workflows", ".gitlab-ci.yml", ".circleci"),
    *(".mcp.json", ".opencode", "opencode.json", "opencode.jsonc", ".factory", "buddy.toml", "agent.toml"),
)
# The same, but nothing replaces what is missing, as it would be in the way: what a command adds is set aside.
GUARDED = (
    *(
        ".idea",
        ".agents",
        ".codex",
        ".gemini",
        "lefthook.yml",
        ".lefthook.yml",
        ".travis.yml",
        ".drone.yml",
        ".cirrus.yml",
    ),
    *(".woodpecker", ".woodpecker.yml", ".buildkite", ".forgejo", ".gitea"),
    *("Jenkinsfile", "azure-pipelines.yml", "bitbucket-pipelines.yml"),
)
HOME_DIRS = (".ssh", ".config/fish", ".config/git", ".config/autostart", ".config/systemd")
HOME_FILES = (
    *(".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc"),
    *(".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".gitconfig", ".tmux.conf", ".vimrc", ".npmrc"),
)
# Outside a sandbox a person decides, so these may be more: nothing stands in their way.
ASKED = (
    *(".git", ".hg", ".gitmodules", ".devcontainer.json", ".gnupg", ".cargo", ".netrc", ".pypirc"),
    *(".yarnrc.yml", "sitecustomize.py", ".pam_environment", ".xprofile", ".config/buddy", ".local/state/buddy"),
    *("lefthook.yaml", ".lefthook.yaml", ".woodpecker.yaml", ".gitlab-ci.yaml", ".drone.yaml", ".travis.yaml"),
)
PROTECTED = tuple(name.casefold() for name in (*REPLACED, *GUARDED, *HOME_DIRS, *HOME_FILES, *ASKED))
# Files alone: directories of these names hold other things. With a `HEAD`, git may take a directory for a repository.
FILES_ALONE = ("head", ".env")
# What git reads there.
IN_REPOSITORY = frozenset({"config", "config.worktree", "commondir", "hooks", "objects", "refs", "info", "modules"})

_NAMES = frozenset(name for name in PROTECTED if "/" not in name)
_PATHS = tuple(f"/{name}/" for name in PROTECTED if "/" in name)
# Other agents keep work trees below these, and a workspace may be one of them.
_AGENTS = frozenset({".agents", ".claude", ".cursor", ".codex", ".gemini"})


def is_protected(path: str, root: str = "") -> bool:
    """Whether a canonical path configures or runs something; case-insensitive, as some file systems are."""
    folded, above = path.casefold(), f"{root.rstrip('/')}/".casefold()
    names = folded.split("/")
    inside = folded.removeprefix(above).split("/")
    if names[-1] in FILES_ALONE or not _NAMES.isdisjoint(inside) or any(name in f"/{folded}/" for name in _PATHS):
        return True
    return not _NAMES.difference(_AGENTS).isdisjoint(names)
