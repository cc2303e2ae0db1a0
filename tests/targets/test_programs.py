"""A program with its pipes in our hands, on each target: what it is given, what it says, and that it is gone after."""

import asyncio
from pathlib import Path

import pytest

from buddy.errors import ToolError
from buddy.targets.confine.policy import ConfinementPolicy
from buddy.targets.confine.probe import probe
from buddy.targets.confine.target import Confined
from buddy.targets.local import Local
from buddy.targets.programs import start_program
from tests.targets.conftest import make
from tests.targets.target_case import TargetCase

ECHO = ["sh", "-c", 'printf "%s in %s\\n" "$WORD" "$PWD"; while read -r line; do printf "heard %s\\n" "$line"; done']


@pytest.fixture(params=["local", "container", "ssh", "tmux"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> TargetCase:
    return await make(request, tmp_path)


async def test_a_program_is_heard_and_hears(place: TargetCase, nonce: str) -> None:
    program = await start_program(place.target, ECHO, cwd=place.root, nonce=nonce, env={"WORD": 'it\'s $HOME "quoted"'})
    try:
        assert (await program.stdout.readline()).decode() == f'it\'s $HOME "quoted" in {place.root}\n'
        program.stdin.write(b"hello\nagain\n")
        assert [await program.stdout.readline() for _ in range(2)] == [b"heard hello\n", b"heard again\n"]
    finally:
        await program.end()
    assert not program.is_running


async def test_what_its_environment_holds_is_in_no_list_of_processes(place: TargetCase, nonce: str) -> None:
    program = await start_program(
        place.target, ECHO, cwd=place.root, nonce=nonce, env={"WORD": "a-secret-of-the-agents"}
    )
    try:
        await program.stdout.readline()
        listing = await asyncio.to_thread(lambda: [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")])
        assert not any(b"a-secret-of-the-agents" in words for words in listing)
    finally:
        await program.end()


async def test_all_it_started_is_gone_after_its_end(place: TargetCase, nonce: str) -> None:
    words = ["sh", "-c", "trap '' TERM; (trap '' TERM; sleep 4321) & echo up; wait"]
    program = await start_program(place.target, words, cwd=place.root, nonce=nonce, env={})
    assert await program.stdout.readline() == b"up\n"
    await program.end(grace=0.2)
    assert await place.target.kill_orphans(nonce) == 0


async def test_how_it_ended_is_reported_with_its_complaint(place: TargetCase, nonce: str) -> None:
    program = await start_program(
        place.target, ["sh", "-c", "echo no good >&2; exit 3"], cwd=place.root, nonce=nonce, env={}
    )
    assert await program.wait() == 3
    assert "no good" in program.stderr_tail
    await program.end()


async def test_a_program_that_is_not_there_is_an_error(nonce: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="could not be started"):
        await start_program(Local(), ["no-such-program"], cwd=str(tmp_path), nonce=nonce, env={})


async def test_a_program_of_anothers_cannot_be_confined(nonce: str, tmp_path: Path) -> None:
    confined = Confined(ConfinementPolicy(str(tmp_path), home=str(tmp_path), own=()), probe)
    with pytest.raises(ToolError, match="cannot be confined"):
        await start_program(confined, ECHO, cwd=str(tmp_path), nonce=nonce, env={})
