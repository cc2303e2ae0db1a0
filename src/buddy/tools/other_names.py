"""Names that other agents use for tools like ours, in files that people wrote for them."""

_OURS: dict[str, tuple[str, ...]] = {
    "bash": ("run_shell",),
    "edit": ("edit_file",),
    "multiedit": ("edit_file",),
    "glob": ("glob",),
    "grep": ("grep",),
    "ls": ("list_files",),
    "read": ("read_file", "read_output"),
    "task": ("delegate",),
    "agent": ("delegate",),
    "todowrite": ("todo",),
    "todoread": ("todo",),
    "webfetch": ("fetch_url",),
    "websearch": ("web_search",),
    "write": ("write_file",),
}


def our_names(name: str) -> tuple[str, ...]:
    """The tools that a name stands for; one that is not known stands for itself.

    A pattern in parentheses, such as `Bash(git:*)`, is not a name: what a tool may do is decided by rules.
    """
    bare = name.partition("(")[0].strip()
    return _OURS.get(bare.lower(), (bare,))
