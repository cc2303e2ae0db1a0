"""A git repository that runs a canary wherever its configuration, attributes or hooks can make git run something."""

import os
import subprocess
from pathlib import Path

# Every setting of git's documentation whose value is a program, or part of a command line.
PROGRAMS = (
    *("core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.sshCommand", "core.gitProxy"),
    *("core.alternateRefsCommand", "sequence.editor", "interactive.diffFilter", "diff.external", "gpg.program"),
    *("gpg.openpgp.program", "gpg.x509.program", "gpg.ssh.program", "gpg.ssh.defaultKeyCommand", "credential.helper"),
    *("credential.https://example.com.helper", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process"),
    *("diff.evil.command", "diff.evil.textconv", "merge.evil.driver", "alias.st", "alias.status", "alias.diff"),
    *("pager.status", "pager.diff", "pager.log", "pager.ls-files", "remote.origin.uploadpack"),
    *("remote.origin.receivepack", "tar.tgz.command", "tar.tar.gz.command", "trailer.sign.command"),
    *("trailer.sign.cmd", "difftool.evil.cmd", "mergetool.evil.cmd", "browser.evil.cmd", "man.evil.cmd"),
    *("sendemail.sendmailCmd", "imap.tunnel", "uploadpack.packObjectsHook", "web.browser", "guitool.evil.cmd"),
    *("trace2.normalTarget", "lfs.customtransfer.evil.path", "receive.fsck.skipList", "core.attributesFile"),
)
# Settings that make git use those.
TRIGGERS = {
    "commit.gpgSign": "true",
    "log.showSignature": "true",
    "diff.tool": "evil",
    "merge.tool": "evil",
    "help.browser": "evil",
    "man.viewer": "evil",
    "filter.evil.required": "false",
    "status.submoduleSummary": "true",
    "diff.submodule": "log",
    "diff.ignoreSubmodules": "none",
    "submodule.recurse": "true",
    "remote.origin.url": "ext::sh -c {canary}",
    "remote.origin.promisor": "true",
    "remote.origin.partialCloneFilter": "blob:none",
    "submodule.sub.update": "!{canary}",
    "submodule.sub.ignore": "none",
    "core.untrackedCache": "true",
}
HOOKS = (
    *("post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "post-checkout", "post-merge", "pre-push", "pre-rebase", "pre-auto-gc"),
    *("post-rewrite", "applypatch-msg", "sendemail-validate", "p4-changelist", "pre-receive", "update"),
)
IDENTITY = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder: Path, *words: str) -> str:
    """A trusted git, for preparing."""
    environment = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    settings = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *settings, *words], cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


def make_repository(folder: Path) -> Path:
    """One commit and one change to each of two files; a new one."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for name in ("changed.txt", "same.txt", "sub dir/inner.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("before\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / "changed.txt").write_text("after\n")
    (folder / "new.txt").write_text("new\n")
    return folder


def make_canary(folder: Path) -> Path:
    """A program that leaves `ran` beside itself with how it was called."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "canary.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $*" >> {folder}/ran\n')
    program.chmod(0o755)
    return program


def poison(folder: Path, canary: Path) -> None:
    """Let its configuration, its attributes and its hooks run the canary, in every way there is."""
    (folder / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    directory = Path(git(folder, "rev-parse", "--git-common-dir").strip())
    directory = directory if directory.is_absolute() else folder / directory
    (directory / "info").mkdir(exist_ok=True)
    (directory / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    for hook in HOOKS:
        (directory / "hooks").mkdir(exist_ok=True)
        (directory / "hooks" / hook).write_text(f"#!/bin/sh\n{canary} {hook}\n")
        (directory / "hooks" / hook).chmod(0o755)
    for name in PROGRAMS:
        set_config(directory / "config", name, f"{canary} {name};false")
    for name, value in TRIGGERS.items():
        set_config(directory / "config", name, value.format(canary=canary))
    included = directory / "included"
    for name in ("core.fsmonitor", "filter.evil.clean", "diff.evil.textconv"):
        set_config(included, name, f"{canary} included {name};false")
    for section in ("include.path", "includeIf.gitdir:**.path", "includeIf.onbranch:**.path"):
        set_config(directory / "config", section, str(included))
    # What has to be filtered again: the size is the same, the time is not.
    for name in ("same.txt", "changed.txt"):
        os.utime(folder / name, (1, 1))


def set_config(file: Path, name: str, value: str) -> None:
    git(file.parent, "config", "--file", str(file), name, value)
