"""`--image FILE`, as one uses it: real processes, and a server that speaks the API."""

import asyncio
import base64
import os
from pathlib import Path

import pytest

from tests.harness.dialects import DIALECTS, KEY, Dialect, says
from tests.harness.fake_model import Answer, FakeModel, Request
from tests.harness.home import Home
from tests.harness.pictures import gif, png

every = pytest.mark.parametrize(
    "dialect",
    [DIALECTS[0], *(pytest.param(dialect, marks=pytest.mark.slow) for dialect in DIALECTS[1:])],
    ids=[dialect.name for dialect in DIALECTS],
)


@every
async def test_an_image_reaches_the_model_now_and_after_a_restart(home: Home, dialect: Dialect) -> None:
    content = png(300, 200, filler=700_000)
    (home.work / "a shot.png").write_bytes(content)
    (home.work / "b.gif").write_bytes(gif())
    asked: list[Request] = []

    def answer(request: Request) -> Answer:
        if not request.raw:
            return Answer(status=404, body=b"{}")
        asked.append(request)
        return dialect.answer(says(dialect, "A picture"))

    async with FakeModel(answer) as model:
        env = {"BUDDY_BASE_URL": model.base_url, "BUDDY_MODEL": "m", "BUDDY_API_KEY": KEY, "BUDDY_API": dialect.name}
        given = ("--image", "a shot.png", "--image", "b.gif")
        done = await asyncio.to_thread(home.run, "exec", *given, "What is this?", env=env)
        assert (done.code, done.out) == (0, "A picture\n"), done.err
        done = await asyncio.to_thread(home.run, "exec", "-c", "Sure?", env=env)
        assert (done.code, done.out) == (0, "A picture\n"), done.err
        done = await asyncio.to_thread(home.run, "exec", *given, env=env)
        assert (done.code, done.out) == (0, "A picture\n"), done.err
        done = await asyncio.to_thread(home.run, "resume", "--last", "--image", "b.gif", env=env)
        assert (done.code, done.out) == (0, "A picture\n"), done.err
    encoded = base64.b64encode(content)
    assert [encoded in request.raw for request in asked] == [True] * 4
    assert all(base64.b64encode(gif()) in request.raw for request in asked)
    # The log names the images; they are stored once, as blobs.
    exported = home.run("session", "export", "2").out.splitlines()
    [said] = [line for line in exported if '"What is this?"' in line and '"user_message"' in line]
    assert '"name":"a shot.png"' in said
    assert len(said) < 2000
    assert sum('"kind":"blob"' in line for line in exported) >= 2
    assert "a shot.png" in home.run("session", "list").out  # the title of one whose first message is an image


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("missing.png", None, "cannot read the image"),
        ("words.png", b"hello", "is not an image (PNG, JPEG, GIF or WebP)"),
        ("wide.png", png(9000, 2), "is 9000x2 pixels; an image may have 8000 a side"),
        ("large.png", png(filler=21 * 1024 * 1024), "has 21.0 MiB; an image may have 20 MiB"),
    ],
)
def test_what_cannot_be_sent_is_said_before_anything_starts(
    home: Home, name: str, content: bytes | None, problem: str
) -> None:
    home.script({"text": "hi"})
    if content is not None:
        (home.work / name).write_bytes(content)
    done = home.run("exec", "--image", name, "look")
    assert done.code == 64
    assert problem in done.err
    assert name in done.err
    assert "PNG, JPEG" in done.err or "smaller" in done.err
    assert home.run("session", "list").out.strip().count("sess_") == 0


def test_a_pipe_is_not_waited_for(home: Home, tmp_path: Path) -> None:
    home.script({"text": "hi"})
    os.mkfifo(tmp_path / "pipe.png")
    done = home.run("exec", "--image", str(tmp_path / "pipe.png"), "look")
    assert done.code == 64
    assert "not a regular file" in done.err


def test_a_session_with_images_is_replayed_as_it_went(home: Home) -> None:
    (home.work / "a.png").write_bytes(png(30, 20))
    home.script({"calls": [{"name": "read_file", "args": {"path": "a.png"}}]}, {"text": "seen"})
    done = home.run("exec", "--image", "a.png", "look")
    assert (done.code, done.out) == (0, "seen\n"), done.err
    verified = home.run("replay", "last", "--verify")
    assert (verified.code, verified.out) == (0, ""), verified.out
    assert "all identical" in verified.err
