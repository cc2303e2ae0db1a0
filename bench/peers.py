"""Other agents, as their users run them: installed from the registries, each into a folder in `bench/.peers`.

Invariants: a peer gets the measuring model as its only one, may do everything without asking, and reaches for
nothing outside (no updates, no telemetry), so that only its own work is measured. If it has a native program, that is
run instead of the launcher.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct

from bench.agents import Agent, Tool
from bench.setup import ROOT, BenchmarkError, Setup, clean_environment

_HELLO = b'{"id":1,"method":"initialize","params":{"clientInfo":{"name":"bench","version":"1"}}}\n'
CACHE = ROOT / "bench" / ".peers"
READ = {"path": "a.txt"}
SHELL = {"command": "true"}


class Peer(Struct, frozen=True):
    """`packages` are installed; `program` is what they must contain, relative to the folder."""

    name: str
    installer: str
    packages: tuple[str, ...]
    program: str
    configure: Callable[[Setup, Path], Agent]

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    def is_installed(self) -> bool:
        return (self.folder / self.program).exists()

    def install(self) -> None:
        """Install it into its folder, with npm or in a virtual environment."""
        self.folder.mkdir(parents=True, exist_ok=True)
        print(f"installing {self.name}…", file=sys.stderr)
        if self.installer == "npm":
            _run(
                ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", ".", *self.packages], self.folder
            )
            return
        _run([sys.executable, "-m", "venv", "."], self.folder)
        _run(["bin/python", "-m", "pip", "install", "-q", *self.packages], self.folder)
        _run(["bin/python", "-m", "compileall", "-q", "-j", "0", "lib"], self.folder)

    def agent(self, setup: Setup) -> Agent:
        return self.configure(setup, self.folder / self.program)


def peers(setup: Setup) -> Iterator[Agent]:
    """The requested peers that are installed or can be; the others are reported on stderr."""
    for peer in PEERS:
        if peer.name not in setup.peers:
            continue
        try:
            if not peer.is_installed():
                peer.install()
            yield peer.agent(setup)
        except BenchmarkError as error:
            print(f"{peer.name} is left out: {error}", file=sys.stderr)


def codex(setup: Setup, program: Path) -> Agent:
    home = setup.new_folder("codex")
    (home / "config.toml").write_text(
        'model = "bench"\nmodel_provider = "bench"\napproval_policy = "never"\nsandbox_mode = "danger-full-access"\n'
        "check_for_update_on_startup = false\nmodel_context_window = 1000000000\n[analytics]\nenabled = false\n"
        f'[model_providers.bench]\nname = "bench"\nbase_url = "{setup.base_url}"\nwire_api = "responses"\n'
    )
    setup.env["CODEX_HOME"] = str(home)

    def shell(command: str) -> Tool:
        return Tool("exec_command", json.dumps({"cmd": command}))

    # It has no read tool; it reads with a command instead.
    command = [str(program), "exec", "--skip-git-repo-check"]
    return Agent(
        "codex",
        "peer",
        lambda prompt: [*command, prompt],
        shell("cat a.txt"),
        shell("true"),
        version=[str(program), "--version"],
        resume=lambda prompt: [*command, "resume", "--last", prompt],
    )


def pi(setup: Setup, program: Path) -> Agent:
    folder = setup.folder / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    model = {"id": "bench", "contextWindow": 1_000_000_000, "maxTokens": 4096}
    provider = {"baseUrl": setup.base_url, "api": "openai-completions", "apiKey": "x", "models": [model]}
    (folder / "models.json").write_text(json.dumps({"providers": {"bench": provider}}))
    setup.env |= {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
    command = ["node", str(program)]
    flags = ["--provider", "bench", "--model", "bench", "-p"]
    read, shell = Tool("read", json.dumps(READ)), Tool("bash", json.dumps(SHELL))
    return Agent(
        "pi",
        "peer",
        lambda prompt: [*command, *flags, prompt],
        read,
        shell,
        version=[*command, "--version"],
        resume=lambda prompt: [*command, "-c", *flags, prompt],
    )


def opencode(setup: Setup, program: Path) -> Agent:
    folder = setup.folder / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    limit = {"context": 1_000_000_000, "output": 4096}
    model = {"name": "bench", "tool_call": True, "limit": limit}
    options = {"baseURL": setup.base_url, "apiKey": "x"}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "bench", "options": options, "models": {"bench": model}}
    config = {"provider": {"bench": provider}, "model": "bench/bench", "autoupdate": False, "share": "disabled"}
    (folder / "opencode.json").write_text(json.dumps({**config, "permission": "allow"}))
    setup.env |= {
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "npm_config_offline": "true",
        "npm_config_registry": "http://127.0.0.1:9",
    }
    read = Tool("read", json.dumps({"filePath": "a.txt"}))
    shell = Tool("bash", json.dumps({**SHELL, "description": "nothing"}))
    version = [str(program), "--version"]
    return Agent("opencode", "peer", lambda prompt: [str(program), "run", prompt], read, shell, version=version)


def framework(name: str) -> Callable[[Setup, Path], Agent]:
    """A Python library: the smallest agent with two tools written with it, in `bench/frameworks`."""
    script = ROOT / "bench" / "frameworks" / f"with_{name.replace('-', '_')}.py"
    read, shell = Tool("read_file", json.dumps(READ)), Tool("run_shell", json.dumps(SHELL))

    def configure(setup: Setup, program: Path) -> Agent:
        def command(prompts: str) -> list[str]:
            return [str(program), str(script), setup.base_url, prompts]

        return Agent(name, "peer", command, read, shell, takes_many=True)

    return configure


def servers(setup: Setup) -> Iterator[tuple[str, Callable[[], "subprocess.Popen[bytes]"]]]:
    """Peers that can serve clients: each starts its server and returns when it listens."""
    wanted = {peer.name: str(peer.folder / peer.program) for peer in PEERS if peer.name in setup.peers}
    for agent in peers(setup):
        if agent.name == "opencode":
            command = [wanted["opencode"], "serve", "--port", "0", "--hostname", "127.0.0.1"]
            yield agent.name, partial(_start_server, setup, command, b"listening")
        if agent.name == "codex":
            yield agent.name, partial(_start_server, setup, [wanted["codex"], "app-server"], b'"result"', _HELLO)


def _start_server(setup: Setup, command: list[str], ready: bytes, hello: bytes = b"") -> "subprocess.Popen[bytes]":
    process = setup.start(command, stdin=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(hello)
    process.stdin.flush()
    while ready not in (line := process.stdout.readline()):
        if not line:
            raise BenchmarkError(f"{command[0]} exited before it was ready")
    return process


def _run(command: list[str], folder: Path) -> None:
    env = clean_environment(HOME=os.environ.get("HOME", str(folder)))
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchmarkError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-300:]}")


PEERS = (
    Peer(
        "codex",
        "npm",
        ("@openai/codex",),
        "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        codex,
    ),
    Peer(
        "pi",
        "npm",
        ("@mariozechner/pi-coding-agent",),
        "node_modules/@mariozechner/pi-coding-agent/dist/cli.js",
        pi,
    ),
    Peer(
        "opencode",
        "npm",
        ("opencode-ai",),
        "node_modules/opencode-linux-x64/bin/opencode",
        opencode,
    ),
    Peer("pydantic-ai", "pip", ("pydantic-ai-slim[openai]",), "bin/python", framework("pydantic-ai")),
    Peer("openai-agents", "pip", ("openai-agents",), "bin/python", framework("openai-agents")),
)
