"""Settings as files contain them (environment files, JSON, YAML, TOML, INI, shell), and code that looks like them."""

import pytest

from buddy.scrub import Scrubber

VALUES = ("letmein", "winterfell", "abcd-efgh", "horse", "Tr0ub4dor", "&3", "w0rd", "FwoGZX", "123456", "3f2a9c1d4e5b")

SETTINGS = [
    "DB_PASS=Tr0ub4dor&3",
    "DB_PASS=pa$$w0rd",
    "DB_PASS=correct-horse",
    "DB_PASSWORD=123456",
    "export DB_PASS='Tr0ub4dor&3'",
    "export SECRET_KEY_BASE=3f2a9c1d4e5b6a7980716253443526170819aabb3f2a9c1d4e5b6a7980716253",
    "SECRET_KEY_BASE: 3f2a9c1d4e5b6a7980716253443526170819aabb3f2a9c1d4e5b6a7980716253",
    "  secret_key_base: 3f2a9c1d4e5b6a7980716253443526170819aabb3f2a9c1d4e5b6a7980716253",
    "SESSION_TOKEN=FwoGZXIvYXdzEBYaD",
    'SESSION_TOKEN="FwoGZXIvYXdzEBYaD"',
    'session_token = "FwoGZXIvYXdzEBYaD"',
    '"token": "FwoGZXIvYXdzEBYaD"',
    "JWT_SECRET=correcthorsebatterystaple",
    "jwt_secret: correcthorsebatterystaple",
    "jwt_secret = correcthorsebatterystaple",
    "API_KEY=abcd-efgh-ijkl",
    "api_key: abcd-efgh-ijkl",
    'api_key = "abcd-efgh-ijkl"',
    "api_key=abcd-efgh-ijkl",
    '{"password": "letmein", "client_secret": "winterfell"}',
    '{"password":"letmein","client_secret":"winterfell"}',
    "password: letmein",
    'password = "letmein"',
    "password = letmein",
    "password=letmein",
    "'password' => 'letmein',",
    "<password>letmein</password>",
    "password: Tr0ub4dor&3",
    '"passphrase": "correct horse battery staple"',
    '"pass": "letmein"',
    "smtp_pass: letmein",
    "API_KEY_PROD=abcd-efgh-ijkl",
    "PASSWORD2=letmein",
    "-e POSTGRES_PASSWORD=letmein postgres",
    "ENV SECRET_KEY=winterfell",
    "set API_KEY=abcd-efgh-ijkl",
    '$env:API_KEY = "abcd-efgh-ijkl"',
    "host=x password=letmein dbname=y",
    "Server=x;Pwd=letmein;Database=y",
    "spring.datasource.password=letmein",
    '"DB_PASS": "Tr0ub4dor&3"',
    "1\tDB_PASS=Tr0ub4dor&3",
    "+API_KEY=abcd-efgh-ijkl",
    ".env:3:API_KEY=abcd-efgh-ijkl",
    "API_KEY=abcd-efgh-ijkl # key",
    '"{\\"password\\": \\"letmein\\"}"',
]

CODE_AND_PLACEHOLDERS = [
    "password = get_password()",
    "token: str",
    'token: str = ""',
    "password: str | None = None",
    'api_key=os.environ["X"]',
    'api_key = os.environ.get("API_KEY")',
    'API_KEY=os.environ["API_KEY"]',
    'secret = "${VAR}"',
    "SECRET=$OTHER",
    "SECRET=${OTHER:-x}",
    "API_KEY=<your key>",
    "API_KEY=your-api-key",
    "API_KEY=YOUR_API_KEY",
    "API_KEY=xxxxxxxxxxxx",
    "password: string",
    'password: "string"',
    '"password": "string"',
    '"password": "Password"',
    '"type": "password"',
    "password: SecretStr",
    "token: Token",
    'def f(password: str, token: str = "x") -> None:',
    "f(password=password, token=token)",
    "f(password=args.password, api_key=settings.api_key)",
    "self.password = password",
    'token == "lambda"',
    'if token == "identifier":',
    '"token": "comment"',
    '{"token": "keyword.control", "foreground": "ff"}',
    'password = input("Password: ")',
    "password = getpass.getpass()",
    "PASS: test_foo",
    "PASS=5 FAIL=3",
    "    pass",
    'first_pass = "something"',
    "PWD=/workspace",
    "OLDPWD=/home/user",
    "GIT_ASKPASS=/usr/bin/askpass",
    "SSH_AUTH_SOCK=/tmp/ssh/agent.1",
    "max_tokens: 4096",
    "MAX_TOKEN=4096",
    "secretName: my-secret",
    "existingSecret: redis-auth",
    "imagePullSecret: regcred",
    '"confirm_password": "Confirm Password"',
    '"password": "Enter your password"',
    "password: required for login",
    "The password: enter it here",
    "token: the access token",
    "password: ${{ secrets.PASSWORD }}",
    "password: !vault |",
    'password: "{{ vault_password }}"',
    "private_key: server.pem",
    "PRIVATE_KEY=/etc/ssl/key.pem",
    "credentials: 'include'",
    "api_key: Optional[str] = None",
    "const token = await getToken();",
    "const password = req.body.password;",
    "password = process.env.PASSWORD",
    'password := os.Getenv("PASSWORD")',
    "String password = config.getPassword();",
    "secret_key = settings.SECRET_KEY",
    "API_KEY=None",
    "DB_PASSWORD=",
    'password=""',
    'password = "***"',
    "if (password === confirm) {",
    "--password PASSWORD",
    "--token TOKEN  the token to use",
    "password=%(password)s",
    "password=%s",
    "primary_key=True",
    'key = "value"',
]


def streamed(text: str) -> str:
    stream = Scrubber().stream()
    return "".join([*map(stream.feed, text), stream.finish()])


@pytest.mark.parametrize("text", SETTINGS)
def test_the_value_of_a_setting_is_hidden_and_its_name_stays(text: str):
    masked = Scrubber().text(f"# settings\n{text}\nDEBUG=1\n")
    assert "[REDACTED]" in masked
    assert not [value for value in VALUES if value in masked]
    assert masked.startswith("# settings\n")
    assert masked.endswith("\nDEBUG=1\n")
    assert masked == streamed(f"# settings\n{text}\nDEBUG=1\n")
    assert "[REDACTED]" in Scrubber().text(text)


@pytest.mark.parametrize("text", CODE_AND_PLACEHOLDERS)
def test_code_types_and_placeholders_pass_unchanged(text: str):
    assert Scrubber().text(text) is text
    assert streamed(f"{text}\nx = 1\n") == f"{text}\nx = 1\n"


@pytest.mark.parametrize("text", SETTINGS)
def test_a_setting_is_hidden_the_same_at_every_cut(text: str):
    whole = Scrubber().text(f"{text}\n")
    for place in range(len(text) + 1):
        stream = Scrubber().stream()
        assert stream.feed(text[:place]) + stream.feed(f"{text[place:]}\n") + stream.finish() == whole


def test_a_field_of_a_tree_is_judged_by_its_name():
    tree = {"client_secret": "winterfell", "api_key": "abcd-efgh-ijkl", "token": "identifier", "pass": "letmein"}
    assert Scrubber().tree(dict(tree)) == dict.fromkeys(tree, "[REDACTED]") | {"token": "identifier"}


@pytest.mark.parametrize("name", ["DB_PASS", "PGPASSPHRASE", "NPM_AUTH", "SMTP_PASSWORD"])
def test_a_variable_is_registered_by_its_name(name: str):
    scrubber = Scrubber()
    scrubber.register_environment({name: "winter is coming", "BYPASS": "all of them", "OLDPWD": "some folder"})
    assert scrubber.text("winter is coming, all of them, some folder") == "[REDACTED], all of them, some folder"
