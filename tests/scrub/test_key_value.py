"""Values next to names of secrets, and values that look random."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.scrub import ENTROPY_MARK, MARK, Scrubber

RANDOM = "q8Zr3kVw7TnB2xLs9PdF4yHc6M"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('api_key: "sk-abc123def456"', f'api_key: "{MARK}"'),
        ("DB_PASSWORD=my.p4ss-w0rd", f"DB_PASSWORD={MARK}"),
        ("postgres://admin:s3cr3t.pw@db.invalid:5432/x", f"postgres://admin:{MARK}@db.invalid:5432/x"),
        ("GET /x?user=1&access_token=abc123def&page=2", f"GET /x?user=1&access_token={MARK}&page=2"),
        ("deploy --api-key abcdef123456 --force", f"deploy --api-key {MARK} --force"),
        ("login --password=hunter2x!", f"login --password={MARK}"),
        ("curl -u admin:s3cr3t.pw https://x.invalid", f"curl -u admin:{MARK} https://x.invalid"),
        ("<clientSecret>abc123def456</clientSecret>", f"<clientSecret>{MARK}</clientSecret>"),
        ("config.setAuthToken := 'abc123def456'", f"config.setAuthToken := '{MARK}'"),
        ('{"Authorization": "Bearer abc123def456"}', f'{{"Authorization": "{MARK}"}}'),
        ("proxy-authorization: Basic dXNlcjpwYXNzMQ==", f"proxy-authorization: {MARK}"),
        ("sent as Bearer abc123def456ghi789", f"sent as Bearer {MARK}"),
        ('"db_password": "correct horse 7 battery"', f'"db_password": "{MARK}"'),
        ("//registry.invalid/:_authToken=abc123def456", f"//registry.invalid/:_authToken={MARK}"),
        ("acme_key = 'a1b2c3d4e5f6g7h8'", f"acme_key = '{MARK}'"),
        ("password: hunter2", f"password: {MARK}"),
        ("passwd=letmein99 # for now", f"passwd={MARK} # for now"),
        ("DB_PASSWORD=correcthorsebattery", f"DB_PASSWORD={MARK}"),
        ("Authorization: Bearer abcdefghijklmnop", f"Authorization: {MARK}"),
    ],
)
def test_a_value_is_recognised_by_the_name_before_it(text: str, expected: str):
    assert Scrubber().text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "password: string",
        'password = "password"',
        "next_page_token: abc123def456",
        "cache_key = 'a1b2c3d4e5f6g7h8'",
        "key: 3f2a9c1d4e5b6a7980716253443526170819aabb",
        "docker run -u 1000:1000 --user node:node image",
        "https://example.invalid:8080/path?page=2",
        "https://user:password@example.invalid/",
        "git@github.invalid:owner/name.git",
        "the password is kept in the vault",
        "token_count: 4096 tokens1234",
        "secret = settings.get_secret2('name')",
        "PASSWORD_FILE=/run/secrets/db_password_1",
        "PASSWORD=secret; PASSWORD=$OTHER; PASSWORD=DEFAULT",
        "Authorization: Bearer authentication",
    ],
)
def test_text_that_is_not_a_value_passes_unchanged(text: str):
    assert Scrubber().text(text) is text


def test_a_random_word_has_its_own_mark():
    assert Scrubber().text(f"it was {RANDOM}, I think") == f"it was {ENTROPY_MARK}, I think"


@pytest.mark.parametrize(
    "text",
    [
        "3f2a9c1d4e5b6a7980716253443526170819aabb",
        "E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855",
        "123e4567-e89b-12d3-a456-426614174000",
        "sess_01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "call_9Fz8KqPw2LmXc7RtYb4NvD3s",
        "toolu_01A09q90qw90lq917835lq9",
        "sha512-" + RANDOM * 3 + "==",
        "sha256=" + RANDOM + RANDOM[:17],
        f"https://example.invalid/docs/{RANDOM}/edit",
        f"/var/folders/zz/{RANDOM}/T/file",
        "testHTTPServerRespondsWith404AndClosesConnection",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB" + RANDOM,
        "data:image/png;base64," + RANDOM * 8,
        RANDOM * 30,
    ],
)
def test_text_that_is_only_long_passes_unchanged(text: str):
    assert Scrubber().text(text) is text


names = st.sampled_from(["password", "apiKey", "note", "token", "client_secret", "message", "id"])
values = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [RANDOM, "hunter2hunter2", 'p4ss"w0rd', "a\\b1234567", "x\nAKIAABCDEFGH234567AB", f"token={RANDOM}"]
    ),
)


@given(st.dictionaries(names, values | st.lists(values, max_size=3), max_size=4), st.booleans())
def test_json_stays_valid_and_keeps_its_shape(value: dict[str, str | list[str]], ascii_only: bool):
    scrubber = Scrubber()
    for text in (json.dumps(value, ensure_ascii=ascii_only), json.dumps(json.dumps(value, ensure_ascii=ascii_only))):
        masked = json.loads(scrubber.text(text))
        assert type(masked) is type(json.loads(text))
    assert json.loads(json.dumps(scrubber.tree(dict(value)))).keys() == value.keys()
