"""`buddy model list`."""

import asyncio
import json

import pytest

from tests.harness.fake_model import Answer, FakeModel, Request
from tests.harness.home import Home


def configure(home: Home, text: str) -> None:
    file = home.directory / ".config" / "buddy" / "buddy.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def lists(request: Request) -> Answer:
    if request.headers.get("authorization") != "Bearer right-key":
        return Answer(status=401, body=b"{}")
    entries = [
        {"id": "vendor/big", "context_length": 131072, "pricing": {"prompt": "0.000001", "completion": "0.000002"}},
        *({"id": f"other-{number}"} for number in range(9)),
    ]
    return Answer(body=json.dumps({"data": entries}).encode())


async def test_the_list_shows_profiles_windows_prices_and_what_is_reachable(home: Home):
    async with FakeModel(lists) as model:
        configure(
            home,
            f"""
[models.right]
api_base_url = "{model.base_url}"
api_key = "right-key"
model = "vendor/big"
[models.wrong]
api_base_url = "{model.base_url}"
api_key = "wrong-key"
model = "gpt-5"
[models.gone]
api_base_url = "http://name:password@127.0.0.1:9/v1"
context_limit = 4096
input_price = 0.5
output_price = 1.5
[models.broken]
[models.entered]
api = "responses"
auth = "login"
model = "gpt-5.3-codex"
[agent]
model = "wrong"
""",
        )
        done = await run(home, "model", "list")
        asked = await run(home, "model", "list", "--json")
    assert done.code == asked.code == 0
    assert "right-key" not in done.out + asked.out
    assert "password" not in done.out + asked.out
    assert "* wrong" in done.out
    assert "  right" in done.out
    assert "vendor/big  131,072 tokens  $1 in, $2 out per million" in done.out
    assert "and 5 more" in done.out
    assert "the key was refused (HTTP 401)" in done.out
    rows = {row["profile"]: row for row in json.loads(asked.out)["models"]}
    assert list(rows) == [
        "right",
        "wrong",
        "gone",
        "broken",
        "entered",
        *(n for n in rows if n in ("local", "scripted")),
    ]
    assert [name for name, row in rows.items() if row["active"]] == ["wrong"]
    assert len(rows["right"]["models"]) == 10
    assert (rows["wrong"]["contextWindow"], rows["wrong"]["inputPrice"]) == (400_000, None)
    assert (rows["gone"]["contextWindow"], rows["gone"]["outputPrice"], rows["gone"]["trouble"]) == (
        4096,
        1.5,
        "no connection",
    )
    assert "no api_base_url" in rows["broken"]["trouble"]
    assert "run `buddy login entered`" in rows["entered"]["trouble"]


async def test_the_environments_server_is_what_the_active_profile_shows(home: Home):
    async with FakeModel(lists) as model:
        home.env |= {"BUDDY_BASE_URL": model.base_url, "BUDDY_API_KEY": "right-key", "BUDDY_MODEL": "vendor/big"}
        done = await run(home, "model", "list", "--json")
    row = json.loads(done.out)["models"][0]
    assert (row["profile"], row["active"], row["contextWindow"]) == ("env", True, 131072)


def test_nothing_configured_is_not_a_failure_of_looking(home: Home):
    done = home.run("model", "list")
    assert done.code == 0
    assert "no model is configured" in done.err


async def run(home: Home, *arguments: str):
    return await asyncio.to_thread(home.run, *arguments)


@pytest.mark.parametrize(
    ("api", "path", "header", "listed"),
    [
        ("anthropic", "/v1/models?limit=1000", "x-api-key", {"data": [{"id": "m-1", "max_input_tokens": 200000}]}),
        (
            "gemini",
            "/v1beta/models?pageSize=1000",
            "x-goog-api-key",
            {"models": [{"name": "models/m-1", "inputTokenLimit": 200000}]},
        ),
    ],
)
async def test_every_api_is_asked_for_its_models_in_its_own_way(
    home: Home, api: str, path: str, header: str, listed: dict[str, object]
) -> None:
    def answer(request: Request) -> Answer:
        is_right = (request.path, request.headers.get(header)) == (path, "right-key")
        return Answer(body=json.dumps(listed).encode()) if is_right else Answer(status=401, body=b"{}")

    async with FakeModel(answer) as model:
        server = model.base_url.removesuffix("/v1")
        configure(home, f'[models.a]\napi = "{api}"\napi_base_url = "{server}"\napi_key = "right-key"\nmodel = "m-1"\n')
        done = await asyncio.to_thread(home.run, "model", "list")
    assert done.code == 0
    assert "m-1  200,000 tokens" in done.out
