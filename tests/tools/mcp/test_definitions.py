"""Which servers a session has: the user's own file, a trusted project's, variables, and mistakes in them."""

import json
from pathlib import Path

import pytest

from buddy.config.load import parse_config
from buddy.config.mcp import McpServer
from buddy.errors import UserError
from buddy.tools.mcp.definitions import define, expand, merge, parse_project_file
from buddy.tools.mcp.naming import name_tools


def test_the_users_file_names_servers_by_command_or_address() -> None:
    text = """
[mcp.servers.files]
command = "mcp-server-filesystem"
args = ["/data"]
env = { LOG = "${LEVEL:-info}" }

[mcp.servers.issues]
url = "https://issues.example/mcp?tenant=1"
headers = { Authorization = "Bearer ${ISSUES_TOKEN}" }
timeout_seconds = 20
"""
    config = parse_config(text, "buddy.toml")
    found = define(config.mcp.servers, {"ISSUES_TOKEN": "t0ken-t0ken"}, "buddy.toml", "/home/me")
    files, issues = found.servers
    assert (files.command, files.args, files.env, files.cwd) == (
        "mcp-server-filesystem",
        ("/data",),
        (("LOG", "info"),),
        "/home/me",
    )
    assert issues.headers == (("Authorization", "Bearer t0ken-t0ken"),) and issues.timeout_seconds == 20
    assert issues.describe() == "https://issues.example/mcp" and "t0ken-t0ken" in issues.secrets()
    assert "t0ken" not in repr(issues)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[mcp.servers.x]", "either a command or a url"),
        ('[mcp.servers.x]\ncommand = "a"\nurl = "http://b"', "either a command or a url"),
        ('[mcp.servers.x]\nurl = "ftp://b"', "http:// or https://"),
        ('[mcp.servers.x]\ncomand = "a"', "Did you mean 'command'"),
        ('[mcp.servers."a b"]\ncommand = "a"', "cannot be the name"),
        ('[mcp]\nserver = "x"', "unknown key 'server'"),
        ("[mcp]\nservers = 3", "must be a table"),
    ],
)
def test_a_mistake_in_the_file_is_explained(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_config(text, "buddy.toml")


def test_a_project_file_is_read_as_other_agents_write_it() -> None:
    content = {
        "mcpServers": {
            "plain": {"command": "./serve.py", "args": ["--root", "${ROOT}"], "type": "stdio", "alwaysAllow": ["x"]},
            "listed": {"command": ["npx", "-y", "thing"], "timeout": 5000},
            "remote": {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"X": "1"}},
            "off": {"command": "a", "disabled": True},
            "old": {"type": "sse", "url": "http://127.0.0.1:1/sse"},
            "unset": {"command": "a", "env": {"KEY": "${NOT_THERE}"}},
            "neither": {},
            "not a name!": {"command": "a"},
        }
    }
    found = parse_project_file(json.dumps(content).encode(), {"ROOT": "/data"}, "/work/.mcp.json", "/work")
    plain, listed, remote = found.servers
    assert (plain.command, plain.args, plain.cwd) == ("/work/serve.py", ("--root", "/data"), "/work")
    assert (listed.command, listed.args, listed.timeout_seconds) == ("npx", ("-y", "thing"), 5.0)
    assert remote.url == "http://127.0.0.1:1/mcp" and remote.headers == (("X", "1"),)
    problems = dict(found.problems)
    assert set(problems) == {"old", "unset", "neither", "not a name!"}
    assert "NOT_THERE is not set" in problems["unset"] and "sse" in problems["old"]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"mcpServers": 3}', b"\xff", b'{"mcpServers": ' + b"[" * 5000])
def test_a_project_file_that_is_none_is_refused(content: bytes) -> None:
    with pytest.raises(UserError):
        parse_project_file(content, {}, "/work/.mcp.json", "/work")


def test_a_projects_server_does_not_replace_the_users_own() -> None:
    own = define({"x": McpServer(command="mine")}, {}, "buddy.toml", "/")
    project = define({"x": McpServer(command="theirs"), "y": McpServer(command="more")}, {}, ".mcp.json", "/w")
    both = merge(own, project)
    assert [server.command for server in both.servers] == ["mine", "more"]
    assert both.problems == () and both.notes == (("x", "ignored in .mcp.json: it could pass for your own server 'x'"),)


@pytest.mark.parametrize(
    ("mine", "theirs", "is_hidden"),
    [
        ("files", "files", True),
        ("my.db", "my_db", True),
        ("my", "my__db", True),  # mcp__my__db__query may be a tool of either
        ("my__db", "my", True),
        ("my", "my_", True),
        ("my", "my_db", False),
        ("files", "file", False),
    ],
)
@pytest.mark.parametrize("state", ["ready", "disabled", "broken"])
def test_a_projects_server_cannot_pass_for_ones_own(mine: str, theirs: str, is_hidden: bool, state: str) -> None:
    server = McpServer(command="${MISSING}" if state == "broken" else "mine", enabled=state != "disabled")
    own = define({mine: server}, {}, "buddy.toml", "/")
    both = merge(own, define({theirs: McpServer(command="theirs")}, {}, ".mcp.json", "/w"))
    assert any(one.command == "theirs" for one in both.servers) is not is_hidden
    assert [name for name, _ in both.notes] == ([theirs] if is_hidden else [])


def test_variables_are_replaced_with_their_default_where_they_are_not_set() -> None:
    env = {"A": "1", "EMPTY": ""}
    assert expand("${A}-${B:-two}-${EMPTY:-three}-${EMPTY}-$A", env) == "1-two-three--$A"
    with pytest.raises(UserError, match="variable B is not set"):
        expand("${B}", env)


def test_a_projects_file_cannot_use_secrets_of_the_environment() -> None:
    env = {
        "GITHUB_TOKEN": "/starts-like-a-path",
        "DATABASE_URL": "postgres://me:hunter2@db/x",
        "COPY": "Bearer h0nest-and-l0ng-value",
        "MY_API_KEY": "h0nest-and-l0ng-value",
        "PLAIN": "/data",
    }
    for name in ("GITHUB_TOKEN", "DATABASE_URL", "COPY", "MY_API_KEY"):
        entry = {"url": "https://example.com/?x=${" + name + "}"}
        found = parse_project_file(json.dumps({"mcpServers": {"s": entry}}).encode(), env, "/w/.mcp.json", "/w")
        assert found.servers == () and f"the variable {name} may hold a secret" in found.problems[0][1]
        assert expand("${" + name + "}", env) == env[name]  # the user's own file can
    assert expand("${PLAIN}-${GITHUB_TOKEN:-none}", env, is_project=True) == "/data-none"


def test_only_headers_that_may_hold_a_secret_are_hidden() -> None:
    headers = {"Authorization": "Bearer aaaa1111", "Cookie": "b=2", "X-Api-Key": "cccc3333", "X-Region": "europe-1"}
    server = McpServer(url="https://example.com", headers=headers)
    (found,) = define({"s": server}, {}, "buddy.toml", "/").servers
    assert {"aaaa1111", "b=2", "cccc3333"} < set(found.secrets()) and "europe-1" not in found.secrets()


def test_names_are_short_allowed_and_never_the_same() -> None:
    tools = [("a", "b"), ("a", "b.c"), ("a", "b c"), ("x" * 40, "y" * 60), ("x" * 40, "y" * 61), ("ü", "ß")]
    names = name_tools(tools)
    assert names["a", "b"] == "mcp__a__b"
    assert len(set(names.values())) == len(tools)
    assert all(len(name) <= 64 and name.replace("-", "_").isascii() for name in names.values())
    assert all(name.startswith("mcp__") for name in names.values())
    assert name_tools([("a", "b.c")]) == {("a", "b.c"): "mcp__a__b_c"}


def test_equal_definitions_are_the_same_server(tmp_path: Path) -> None:
    server = McpServer(command="a", env={"X": "1"})
    one, two = (define({"s": server}, {}, "f", str(tmp_path)).servers[0] for _ in range(2))
    assert one == two and hash(one) == hash(two)


@pytest.mark.parametrize(
    ("oauth", "message"),
    [
        ('client_secret = "x"', "credentials need client_id, and issuer"),
        ('client_id = "a"\nclient_secret = "x"', "credentials need client_id, and issuer"),
        ('client_id = "a"\nissuer = "https://i"\ngrant = "client_credentials"', "needs a client_secret or a private"),
        ('client_id = "a"\nissuer = "https://i"\ngrant = "jwt_bearer"', "belong together"),
        ('client_metadata_url = "http://x/y"', "must start with https://"),
        ('grant = "password"', "cannot be 'password'"),
    ],
)
def test_a_mistake_in_a_login_is_explained(oauth: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_config(f'[mcp.servers.x]\nurl = "https://x"\n[mcp.servers.x.oauth]\n{oauth}', "buddy.toml")


def test_a_registered_client_is_configured_and_its_secret_hidden() -> None:
    text = """
[mcp.servers.x]
url = "https://x.example/mcp"
[mcp.servers.x.oauth]
client_id = "buddy"
client_secret = "${SECRET}"
issuer = "https://login.example"
"""
    (found,) = define(parse_config(text, "f").mcp.servers, {"SECRET": "hunter2hunter2"}, "f", "/").servers
    assert found.oauth is not None and found.oauth.client_secret == "hunter2hunter2"
    assert "hunter2hunter2" in found.secrets() and "hunter2" not in repr(found) + repr(found.oauth)
    entry = {"url": "https://x.example", "oauth": {"client_id": "theirs"}}
    project = parse_project_file(json.dumps({"mcpServers": {"x": entry}}).encode(), {}, "/w/.mcp.json", "/w")
    assert project.servers[0].oauth is None  # a repository does not say who logs in
