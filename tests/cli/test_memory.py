"""`buddy memory`: what was said is found, and can be taken out."""

import asyncio
import json
import re

import apsw
import msgspec
import pytest
from msgspec import Struct

from buddy.log.database import connect
from buddy.memory.schema import FILE, VERSION
from tests.harness.fake_model import Answer, FakeModel, Request, answer_to, says
from tests.harness.home import Home
from tests.harness.processes import wait_until

# A recall waits a second for what compares by meaning; where other work keeps the machine busy that can be too short.
ATTEMPTS = 10


class Match(Struct):
    id: int
    text: str
    role: str
    session_id: str = msgspec.field(name="sessionId")


class Matches(Struct):
    matches: list[Match]


def first_match(home: Home, words: str) -> Match:
    """What is found, once it is indexed: a command that ends leaves to the next one what takes long."""
    found: list[Match] = []

    def is_found() -> bool:
        shown = home.run("memory", "search", words, "--json")
        found.extend(msgspec.json.decode(shown.out, type=Matches).matches)
        return bool(found)

    wait_until(is_found, f"{words!r} to be found")
    return found[0]


def test_what_was_said_is_found_and_can_be_forgotten(home: Home) -> None:
    home.script({"text": "noted"})
    assert home.run("exec", "the release train leaves on tuesdays").code == 0
    match = first_match(home, "when does the release train leave?")
    assert (match.text, match.role) == ("the release train leaves on tuesdays", "user")
    assert "release train" in home.run("memory", "search", "release train").out
    assert home.run("memory", "forget", str(match.id)).code == 0
    assert "tuesdays" not in home.run("memory", "search", "release train").out


def test_the_index_of_a_newer_version_is_left_alone_and_named(home: Home) -> None:
    home.script({"text": "noted"})
    assert home.run("exec", "the release train leaves on tuesdays").code == 0
    first_match(home, "release train")
    path = home.state / FILE
    db = connect(path, apsw.SQLITE_OPEN_READWRITE)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    content = path.read_bytes()
    assert home.run("exec", "when does it leave?").code == 0
    found = home.run("memory", "search", "release train")
    assert (found.code, found.out) == (64, "")
    assert f"{path} was written by a newer Buddy" in found.err
    assert re.search(r"warn +memory +.* was written by a newer Buddy.*\n +hint: upgrade", home.run("doctor").out)
    assert path.read_bytes() == content


def test_only_this_directory_is_searched_unless_all_are(home: Home) -> None:
    home.script({"text": "noted"})
    home.run("exec", "pomelo")
    assert first_match(home, "pomelo").text == "pomelo"
    elsewhere = home.directory / "elsewhere"
    elsewhere.mkdir()
    assert "nothing found" in home.run("memory", "search", "pomelo", "-C", str(elsewhere)).err
    assert "pomelo" in home.run("memory", "search", "pomelo", "-C", str(elsewhere), "--all").out


@pytest.mark.slow
def test_a_session_can_be_forgotten_completely(home: Home) -> None:
    home.script({"text": "noted"})
    home.run("exec", "pomelo")
    assert home.run("memory", "forget", "--session", first_match(home, "pomelo").session_id).code == 0
    assert "nothing found" in home.run("memory", "search", "pomelo").err


@pytest.mark.parametrize("name", ["last", pytest.param("1", marks=pytest.mark.slow), "prefix", "full"])
def test_a_session_is_named_as_everywhere(home: Home, name: str) -> None:
    home.script({"text": "noted"}).run("exec", "pomelo")
    session_id = first_match(home, "pomelo").session_id
    named = {"prefix": session_id[:-2], "full": session_id}.get(name, name)
    done = home.run("memory", "forget", "--session", named)
    assert (done.code, done.err) == (0, f"forgot 2 snippets of {session_id}; the session is not indexed again\n")
    assert "nothing found" in home.run("memory", "search", "pomelo").err


def test_a_session_that_does_not_exist_is_not_forgotten(home: Home) -> None:
    home.script({"text": "noted"}).run("exec", "pomelo")
    session_id = first_match(home, "pomelo").session_id
    for wrong in ("typo", "sess_01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        for words in (["forget"], ["search", "pomelo"]):
            done = home.run("memory", *words, "--session", wrong)
            assert (done.code, done.out) == (64, ""), done.err
            assert "error: no session" in done.err
    assert "pomelo" in home.run("memory", "search", "pomelo", "--session", "last").out
    assert first_match(home, "pomelo").session_id == session_id


@pytest.mark.slow
def test_a_session_that_is_only_in_the_index_is_forgotten_by_its_id(home: Home) -> None:
    home.script({"text": "noted"}).run("exec", "pomelo")
    assert first_match(home, "pomelo").text == "pomelo"
    deleted = "sess_01ARZ3NDEKTSV4RRFFQ69G5FAV"
    db = connect(home.state / FILE, apsw.SQLITE_OPEN_READWRITE)
    db.execute("UPDATE chunks SET session = ?", (deleted,))
    db.close()
    assert home.run("memory", "forget", "--session", deleted[:-2]).code == 64
    done = home.run("memory", "forget", "--session", deleted)
    assert (done.code, "forgot 2 snippets" in done.err) == (0, True), done.err
    assert home.run("memory", "forget", "--session", deleted).code == 64


@pytest.mark.slow
def test_without_an_embedder_it_says_how_it_searched(home: Home) -> None:
    home.script({"text": "noted"})
    config = home.directory / ".config" / "buddy" / "buddy.toml"
    config.write_text(config.read_text() + '[memory]\nembeddings = "none"\n')
    home.run("exec", "pomelo")
    assert "by words alone" in home.run("memory", "search", "pomelo").err


@pytest.mark.slow
def test_forgetting_needs_to_know_what(home: Home) -> None:
    home.script({"text": "noted"})
    home.run("exec", "pomelo")
    assert home.run("memory", "forget").code == 64
    assert home.run("memory", "forget", "999").code == 1


@pytest.mark.slow
async def test_a_single_exec_recalls_what_was_said_in_other_words(home: Home) -> None:
    def reply(request: Request) -> Answer:
        return answer_to(request, says("fine"))

    async with FakeModel(reply) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m", "BUDDY_CONTEXT_LIMIT": "32000"}
        done = await asyncio.to_thread(home.run, "exec", "my car is broken", env=env)
        assert done.code == 0, done.err
        for _ in range(ATTEMPTS):
            done = await asyncio.to_thread(home.run, "exec", "the automobile does not run", "--json", env=env)
            assert done.code == 0, done.err
            sent = [request.body for request in model.requests if request.path.endswith("/chat/completions")]
            texts = [message["content"] for message in sent[-1]["messages"] if message["role"] == "user"]
            assert texts[-1] == "the automobile does not run"
            if "- my car is broken (user, " in texts[0]:
                return
            await asyncio.to_thread(home.run, "memory", "forget", "--session", json.loads(done.out)["sessionId"])
    raise AssertionError(f"not recalled in {ATTEMPTS} attempts")
