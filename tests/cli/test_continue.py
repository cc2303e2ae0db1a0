"""A next message to a session that exists, without a person: `exec -c`, `exec --session`, `resume … PROMPT`, `-p`."""

import json
from collections.abc import Iterator

import pytest

from tests.harness.home import Home
from tests.harness.processes import Finished
from tests.harness.scripts import shell

SLOW = shell("echo ready; sleep 60")
REPLIES = ({"text": "first"}, {"text": "second"}, {"text": "third"})


@pytest.fixture(params=["alone", "daemon"])
def anywhere(home: Home, request: pytest.FixtureRequest) -> Iterator[Home]:
    """Without a daemon, and with one."""
    if request.param == "alone":
        yield home
        return
    home.script(*REPLIES)
    assert home.run("daemon", "start").code == 0
    yield home
    home.run("daemon", "stop")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, str]:
    """A session that nothing is added to, for all tests of what is refused."""
    home = Home(tmp_path_factory.mktemp("begun") / "home")
    return home, session_of(home.script(*REPLIES).run("exec", "one"))


def session_of(done: Finished) -> str:
    return next(line for line in done.err.splitlines() if line.startswith("session ")).split()[1]


def prompts(home: Home, session_id: str) -> list[str]:
    exported = home.run("session", "export", session_id).out.splitlines()
    events = [json.loads(line) for line in exported]
    return [event["payload"]["text"] for event in events if event["type"] == "user_message"]


def test_a_message_continues_the_last_session_here(anywhere: Home) -> None:
    begun = anywhere.script(*REPLIES).run("exec", "one")
    done = anywhere.run("exec", "-c", "two")
    assert (done.code, done.out, session_of(done)) == (0, "second\n", session_of(begun))
    again = anywhere.run("exec", "--continue", "three", "--json")
    outcome = json.loads(again.out)
    assert (outcome["text"], outcome["sessionId"], outcome["turns"]) == ("third", session_of(begun), 1)
    assert prompts(anywhere, session_of(begun)) == ["one", "two", "three"]


@pytest.mark.slow
def test_a_message_continues_a_session_by_its_id(anywhere: Home) -> None:
    begun = anywhere.script(*REPLIES).run("exec", "one")
    anywhere.run("exec", "another session")
    for words in (["exec", "--session", session_of(begun), "two"], ["resume", session_of(begun), "three"]):
        done = anywhere.run(*words)
        assert (done.code, session_of(done)) == (0, session_of(begun))
    assert prompts(anywhere, session_of(begun)) == ["one", "two", "three"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        (["resume", "--last", "two"], None),
        (["resume", "--last", "-"], "two"),
        (["resume", "--last"], "two"),
        (["exec", "-c"], "two"),
        (["run", "--headless", "-c", "--task", "two"], None),
        (["-c", "-p", "two"], None),
        (["-p", "--continue", "two"], None),
        (["exec", "-p", "-c", "two"], None),
    ],
)
def test_the_next_message_comes_by_every_way(home: Home, words: list[str], stdin: str | None) -> None:
    begun = home.script(*REPLIES).run("exec", "one")
    done = home.run(*words, stdin=stdin)
    assert (done.code, done.out) == (0, "second\n")
    assert prompts(home, session_of(begun)) == ["one", "two"]


def test_print_is_exec(home: Home) -> None:
    done = home.script(*REPLIES).run("--print", "hello", "--json")
    assert json.loads(done.out)["text"] == "first"
    assert home.run("-p", stdin="hello").out == "first\n"
    try:
        assert "> -p" in home.run("--", "-p").err, "after -- it is a prompt"
    finally:
        home.run("daemon", "stop")  # the terminal started it


@pytest.mark.slow
def test_without_a_new_prompt_the_last_answer_is_printed_again(home: Home) -> None:
    begun = home.script(*REPLIES).run("exec", "one")
    assert home.run("resume", "--last").out == "first\n"
    assert prompts(home, session_of(begun)) == ["one"]


@pytest.mark.slow
def test_what_is_said_for_one_run_applies_to_it(home: Home) -> None:
    home.script({"text": "first"}, shell("echo ran >> ran"), shell("echo ran >> ran")).run("exec", "one")
    stopped = home.run("exec", "-c", "two", "--approve", "all", "--max-turns", "1")
    assert stopped.code == 5
    assert (home.work / "ran").read_text() == "ran\n"
    assert home.run("exec", "-c", "three", "--approve", "none").code == 3
    assert (home.work / "ran").read_text() == "ran\n"


@pytest.mark.slow
def test_checks_decide_the_outcome_of_a_next_message(home: Home) -> None:
    home.script(*REPLIES).run("exec", "one")
    done = home.run("exec", "-c", "two", "--accept", "exit 7", "--max-rounds", "1", "--json")
    assert (done.code, json.loads(done.out)["acceptance"]["results"][0]["exitCode"]) == (4, 7)


@pytest.mark.slow
def test_nobody_is_waited_for_in_a_session_that_asks(home: Home) -> None:
    home.script({"text": "first"}, shell("echo ran >> ran")).run("exec", "one", "--approve", "ask")
    assert home.run("exec", "-c", "two").code == 3
    assert not (home.work / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exec", "-c", "go", "--sandbox", "host"], "--sandbox can't be changed in an existing session"),
        (["exec", "-c", "go", "--plan"], "--plan can't be changed"),
        (["exec", "-c", "go", "--tmux"], "--tmux can't be changed"),
        (["exec", "-c", "go", "--agent-runtime", "native"], "--agent-runtime can't be changed"),
        (["resume", "--last", "go", "--container", "box"], "--container can't be changed"),
        (["exec", "-c", "go", "--max-turns", "0"], "--max-turns must be more than 0"),
        (["exec", "-c", "go", "--approve", "maybe"], "unknown approval policy"),
        (["exec", "-c", "--session", "last", "go"], "not allowed with"),
        (["exec", "-c", "go", "--profile", "nobody"], "unknown profile 'nobody'"),
        (["exec", "-c"], "no prompt given"),
        (["exec", "--session", "nope", "go"], "no session nope"),
        (["resume", "--last", "sess_01M", "go"], "--last and a session id can't be combined"),
        (["resume", "--last", "--approve", "all"], "--approve only goes with a prompt"),
    ],
)
def test_what_cannot_apply_is_the_users_error(begun: tuple[Home, str], words: list[str], said: str) -> None:
    home, session_id = begun
    done = home.run(*words)
    assert (done.code, done.out) == (64, "")
    assert said in done.err.splitlines()[0]
    assert prompts(home, session_id) == ["one"]


def test_no_session_here_is_the_users_error(home: Home) -> None:
    done = home.script(*REPLIES).run("exec", "-c", "go")
    assert done.code == 64
    assert "no session in" in done.err


@pytest.mark.slow
def test_a_busy_session_is_left_alone(home: Home) -> None:
    with home.script(SLOW).start("exec", "go", "--approve", "all", "--stream-json") as running:
        session_id = running.wait_for("tool_output").session_id
        for words in (
            ["exec", "-c", "more"],
            ["exec", "--session", session_id, "more"],
            ["resume", session_id, "more"],
        ):
            done = home.run(*words)
            assert done.code == 75
            assert f"error: {session_id} is busy: it has an active run\n" in done.err
    assert prompts(home, session_id) == ["go"]


@pytest.mark.slow
def test_an_interrupted_run_is_neither_resumed_nor_cancelled_by_a_message(home: Home) -> None:
    with home.script(SLOW, {"text": "recovered"}).start("exec", "go", "--approve", "all", "--stream-json") as running:
        session_id = running.wait_for("tool_output").session_id
        running.process.kill()
    done = home.run("exec", "-c", "more")
    assert done.code == 75
    assert f"hint: buddy resume {session_id}" in done.err
    assert home.run("resume", session_id).out == "recovered\n"
    assert home.run("exec", "-c", "more").code == 0


@pytest.mark.slow
def test_a_prompt_that_was_redacted_is_announced_and_can_be_sent_as_it_is(home: Home) -> None:
    prompt = "decode q7Zp2LxV9mKc4TrB8wYd3NfH6sJg1QaE"
    done = home.script(*REPLIES).run("exec", prompt)
    assert "warning: 1 part of this message looked like a secret and was redacted\nhint: --as-is" in done.err
    assert prompts(home, session_of(done)) == ["decode [REDACTED:high-entropy]"]
    again = home.run("exec", "-c", "--as-is", prompt)
    assert again.code == 0
    assert "redacted" not in again.err
    assert prompts(home, session_of(done))[1:] == [prompt]
    fresh = home.script(*REPLIES).run("exec", "--as-is", prompt)
    assert prompts(home, session_of(fresh)) == [prompt]
