"""The options of the command line, typed. A command sets those that it has; the others keep these defaults."""

import argparse
from collections.abc import Callable


class Options(argparse.Namespace):
    command: "Callable[[Options], int]"
    needs_model: bool = False
    action: str = ""
    version: bool = False

    # every command
    config: str | None = None
    state_dir: str | None = None
    socket: str | None = None
    log: str | None = None
    directory: str = "."
    json: bool = False
    stream_json: bool = False

    # exec, run, resume and the REPL
    prompt: str | None = None
    task: str | None = None
    print: bool = False
    accept: list[str]
    image: list[str] | None = None
    as_is: bool = False
    max_rounds: int | None = None
    approve: str | None = None
    max_turns: int | None = None
    max_cost: float | None = None
    max_time: str | None = None
    max_tokens: int | None = None
    profile: str | None = None
    model: str | None = None
    agent_runtime: str | None = None
    unsafe_agent: bool = False
    container: str | None = None
    ssh: str | None = None
    tmux: bool | str | None = None
    no_tmux: bool = False
    no_checkpoints: bool = False
    worktree: bool = False
    sandbox: str | None = None
    plan: bool = False
    last: bool = False

    # sessions
    session_id: str = ""
    session: str | None = None
    all: bool = False
    limit: int = 0
    text: str = ""
    archived: bool = False
    undo: bool = False
    seq: int | None = None
    run: str | None = None
    turn: int | None = None
    call: str | None = None
    stat: bool = False
    diff: bool = False
    redo: bool = False
    discard: bool = False
    at: int | None = None
    file: str | None = None
    dry_run: bool = False
    yes: bool = False
    force: list[str]
    folder: str = "."
    read_only: bool = False
    after: int = 0
    speed: float = 1.0
    fast: bool = False
    verify: bool = False
    query: str = ""
    chunk: int | None = None

    # approvals and trust
    network: bool = False
    cwd: str | None = None
    rule: str = ""
    no_grants: bool = False
    approval: str = ""
    comment: str | None = None
    scope: str = "once"
    stop: bool = False
    since: str | None = None
    revoke: bool = False

    # the daemon, projects, accounts, the demo, completion and help
    listen: str | None = None
    allow_remote: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    no_open: bool = False
    share: str | None = None
    expires: str | None = None
    lines: int = 0
    wait: str = "1m"
    older_than: str | None = None
    max_size: str | None = None
    replace: bool = False
    follow: bool = False
    remove: bool = False
    name: str = ""
    new_name: str | None = None
    device: bool = False
    browser: bool = False
    login: bool = False
    child: str | None = None
    resume: str | None = None
    shell: str = ""
    words: list[str]

    # MCP servers
    takes_words: bool = False
    env: list[str]
    header: list[str]
    in_project: bool = False
