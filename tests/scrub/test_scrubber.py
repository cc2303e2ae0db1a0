"""Complete values: environments, trees, and values with names of secrets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from buddy.protocol.events import AssistantMessage, ToolCall
from buddy.protocol.shapes import ToolCallItem
from buddy.scrub import MARK, Scrubber

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("ab", max_size=12) | st.just("hunter2hunter2"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
    max_leaves=10,
)


@pytest.fixture
def scrubber() -> Scrubber:
    scrubber = Scrubber()
    scrubber.register("hunter2hunter2")
    return scrubber


def test_variables_with_telling_names_are_registered():
    scrubber = Scrubber()
    scrubber.register_environment(
        {
            "OPENAI_API_KEY": "value-of-key-1",
            "db_password": "value-of-password",
            "GITHUB_TOKEN": "short",
            "HOME": "/home/somebody",
            "SSH_KEY_FILE": "/home/somebody/.ssh/id",
            "EDITOR": "value-of-editor",
        }
    )
    text = "value-of-key-1 value-of-password short /home/somebody/.ssh/id value-of-editor"
    assert scrubber.registered(text) == f"{MARK} {MARK} short /home/somebody/.ssh/id value-of-editor"


def test_a_tree_is_scrubbed_in_depth_and_in_its_keys(scrubber: Scrubber):
    value = {"a": ["x hunter2hunter2", 1, None], "hunter2hunter2": ({"b": "hunter2hunter2"},), "c": 1.5}
    assert scrubber.tree(value) == {"a": [f"x {MARK}", 1, None], MARK: ({"b": MARK},), "c": 1.5}
    assert value["a"] == ["x hunter2hunter2", 1, None], "the value itself is left alone"


def test_a_tree_without_secrets_is_the_same_object(scrubber: Scrubber):
    value = {"a": ["x", {"b": ("y", 2)}], "c": None}
    assert scrubber.tree(value) is value


@given(json_values)
def test_a_scrubbed_tree_holds_no_secret_and_is_stable(value: object):
    scrubber = Scrubber()
    scrubber.register("hunter2hunter2")
    scrubbed = scrubber.tree({"value": value})
    assert "hunter2hunter2" not in repr(scrubbed)
    assert scrubber.tree(scrubbed) is scrubbed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("api_key=abcdef123456", f"api_key={MARK}"),
        ("export OPENAI_API_KEY=abcdef123456 next", f"export OPENAI_API_KEY={MARK} next"),
        ('{"password": "p4ss.w0rd$!"}', f'{{"password": "{MARK}"}}'),
        (r'"{\"secret\": \"abc12345\"}"', rf'"{{\"secret\": \"{MARK}\"}}"'),
        ("Authorization: Bearer eyJhbGci.eyJzdWIi.c2ln", f"Authorization: {MARK}"),
        ("curl -H 'authorization: Basic dXNlcjpwYXNz'", f"curl -H 'authorization: {MARK}'"),
        ("client_secret: abc-123-def-456", f"client_secret: {MARK}"),
        ("İ token=abcdef123456", f"İ token={MARK}"),
    ],
)
def test_a_value_with_a_telling_name_is_hidden(text: str, expected: str):
    masked = Scrubber().text(text)
    assert masked == expected
    assert Scrubber().text(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens=4096000000",
        "token = read_token2(stream)",
        "password: str | None = None",
        "for key, value in pairs: pass",
        "sort(key=lambda pair: pair[1])",
        "the token: something9else.attribute",
        'api_key = "${OPENAI_API_KEY_2}"',
        "secret = <your-secret-1>",
        "tokens_used: 12345678abc",
        "commit 3f2a9c1d4e5b6a7980716253443526170819aabb",
        "see https://example.invalid/key=1",
    ],
)
def test_source_and_prose_pass_unchanged(text: str):
    assert Scrubber().text(text) is text


pieces = st.sampled_from(["token", "api_key", "=", ": ", '"', "abc12345", "Authorization", "Bearer ", "hunter2hunter2"])


@given(st.lists(pieces | st.sampled_from([MARK, "\\", " ", "[", "("]), max_size=20).map("".join))
def test_all_layers_together_are_idempotent(text: str):
    scrubber = Scrubber()
    scrubber.register("hunter2hunter2")
    once = scrubber.text(text)
    assert scrubber.text(once) == once


@pytest.mark.parametrize(
    "around", ["", "a sentence of many words, longer than what is remembered " * 3], ids=["short", "long"]
)
def test_a_text_that_was_clean_is_looked_at_again_once_a_secret_is_registered(around: str):
    scrubber, text = Scrubber(), f"{around}open sesame please"
    assert scrubber.text(text) is text
    assert scrubber.text(text) is text
    scrubber.register("open sesame")
    assert scrubber.text(text) == f"{around}{MARK} please"


def test_a_struct_is_clean_where_its_tree_is_left_alone():
    scrubber = Scrubber()
    scrubber.register("open sesame")
    call = ToolCall(source="sandbox", tool_name="grep", args={"pattern": "x", "password": "5"}, call_id="call_1")
    said = AssistantMessage(
        message_id="asst_1", text="it is open sesame", tool_calls=(), finish="stop", truncated=False
    )
    made = ToolCallItem("call_2", "grep", '{"pattern":"open sesame"}')
    clean = ToolCall(source="sandbox", tool_name="grep", args={"pattern": "x"}, call_id="call_1")
    assert [scrubber.is_clean(body) for body in (call, said, replace(said, text="", tool_calls=(made,)), clean)] == [
        False,
        False,
        False,
        True,
    ]
