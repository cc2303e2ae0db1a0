"""Known formats and private keys: hidden by their shape alone."""

import json
from pathlib import Path

import pytest

from buddy.scrub import MARK, Scrubber, prefix_table, token_formats
from buddy.scrub.build_prefix_table import literal_prefixes, source
from buddy.scrub.formats import GATED, PREFIXED
from tests.scrub.samples import TEMPLATES, sample, secret_part

KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123456789ABCDEF\n\n"
    "MIIEpQIBAAKCAQEAn6/O8li+SX4m98LLYt/PKSzEmQ++ZBD7Loh9P13f4yQ92EF3\nyxR5MsXFu9PRsrYQA7/4UTPHiC4y2sAVCBg4C2yy\nZXI=\n"
    "-----END RSA PRIVATE KEY-----"
)


def test_there_are_more_than_a_hundred_formats():
    assert len(PREFIXED) + len(GATED) > 150
    assert all(literal_prefixes(shape) for shape in PREFIXED.values())


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_token_is_known_by_its_shape(template: str):
    for seed in range(5):
        token = sample(template, seed)
        text = f"see {token}, then"
        assert list(token_formats.spans(text, token_formats.runs(text))), token
        assert secret_part(token) not in Scrubber().text(text)


@pytest.mark.parametrize("frame", ["{}", "({})", "'{}'", "x={};", "a\n{}\nb", '{{"v": "{}"}}', "<b>{}</b>", "`{}`"])
def test_a_token_is_known_in_any_frame(frame: str):
    token = sample("ghp_<A36>", 1)
    assert Scrubber().text(frame.format(token)) == frame.format(MARK)


def test_a_token_behind_an_escaped_newline_leaves_json_valid():
    token = sample("AKIA<c16>", 1)
    text = json.dumps({"log": f"first\n{token}\nlast"})
    assert json.loads(Scrubber().text(text)) == {"log": f"first\n{MARK}\nlast"}


def test_a_private_key_is_hidden_from_its_first_line_to_its_last():
    assert Scrubber().text(f"before\n{KEY}\nafter") == f"before\n{MARK}\nafter"


def test_a_private_key_in_json_is_hidden_and_the_json_stays_valid():
    text = json.dumps({"private_key": KEY + "\n", "type": "service_account"})
    assert json.loads(Scrubber().text(text)) == {"private_key": f"{MARK}\n", "type": "service_account"}


def test_a_private_key_without_its_end_is_hidden_as_far_as_it_goes():
    assert Scrubber().text(KEY.partition("ZXI=")[0] + "...") == f"{MARK}\n..."


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY----- is how such a file begins",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
        "grep -- '-----BEGIN RSA PRIVATE KEY-----' *",
    ],
)
def test_text_about_keys_is_left_alone(text: str):
    assert Scrubber().text(text) == text


def test_the_generated_table_is_up_to_date() -> None:
    hint = "python -m buddy.scrub.build_prefix_table regenerates it"
    assert Path(prefix_table.__file__).read_text(encoding="utf-8") == source(), hint
