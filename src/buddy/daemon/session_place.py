"""Where a session works: its target, its workspace, and what is open of it in an editor."""

import functools
import os

from buddy.approvals.rulebook import RuleBook
from buddy.daemon.open_files import OpenFiles
from buddy.protocol.events import SessionStarted
from buddy.targets.choose import OwnDirectories, TargetRequest, choose
from buddy.tools.contract import Place


def place_of(started: SessionStarted, own: OwnDirectories, rulebook: RuleBook, open_files: OpenFiles) -> Place:
    options = started.options
    request = TargetRequest(
        (options.target if options else None) or started.sandbox_provider,
        started.repo.root_path if started.repo else ".",
        options.sandbox if options else None,
        options.tmux if options else None,
    )
    chosen = choose(request, own)
    is_closed = functools.partial(rulebook.is_closed, chosen.root)
    private = tuple(map(os.path.realpath, (own.config_dir, own.state_dir, own.run_dir)))
    files = open_files.of(started) if chosen.target.name == "local" else None
    return Place(chosen.target, chosen.root, chosen.sandbox, is_closed, private=private, editor=files)
