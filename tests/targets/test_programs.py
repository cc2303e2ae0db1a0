"""Third-party programs on each target: their environment, their output, and that they end."""

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


async def test_a_program_is_connected_to_stdin_and_stdout(place: TargetCase, nonce: str) -> None:
    program = await start_program(place.target, ECHO, cwd=place.root, nonce=nonce, env={"WORD": 'it\'s $HOME "quoted"'})
    try:
        assert (await program.stdout.readline()).decode() == f'it\'s $HOME "quoted" in {place.root}\n'
        program.stdin.write(b"hello\nagain\n")
        assert [await program.stdout.readline() for _ in range(2)] == [b"heard hello\n", b"heard again\n"]
    finally:
        await program.end()
    assert not program.is_running


async def test_the_environment_of_a_program_is_not_in_the_process_list(place: TargetCase, nonce: str) -> None:
    program = await start_program(
        place.target, ECHO, cwd=place.root, nonce=nonce, env={"WORD": "a-secret-of-the-agents"}
    )
    try:
        await program.stdout.readline()
        listing = await asyncio.to_thread(lambda: [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")])
        assert not any(b"a-secret-of-the-agents" in words for words in listing)
    finally:
        await program.end()


async def test_everything_a_program_started_is_gone_after_its_end(place: TargetCase, nonce: str) -> None:
    words = ["sh", "-c", "trap '' TERM; (trap '' TERM; sleep 4321) & echo up; wait"]
    program = await start_program(place.target, words, cwd=place.root, nonce=nonce, env={})
    assert await program.stdout.readline() == b"up\n"
    await program.end(grace=0.2)
    assert await place.target.kill_orphans(nonce) == 0


async def test_the_exit_code_and_the_last_error_are_reported(place: TargetCase, nonce: str) -> None:
    program = await start_program(
        place.target, ["sh", "-c", "echo no good >&2; exit 3"], cwd=place.root, nonce=nonce, env={}
    )
    assert await program.wait() == 3
    assert "no good" in program.stderr_tail
    await program.end()


async def test_a_missing_program_is_an_error(nonce: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="could not be started"):
        await start_program(Local(), ["no-such-program"], cwd=str(tmp_path), nonce=nonce, env={})


async def test_a_third_party_program_cannot_be_confined(nonce: str, tmp_path: Path) -> None:
    confined = Confined(ConfinementPolicy(str(tmp_path), home=str(tmp_path), own=()), probe)
    with pytest.raises(ToolError, match="cannot be confined"):
        await start_program(confined, ECHO, cwd=str(tmp_path), nonce=nonce, env={})
