"""One contract for all targets."""

import asyncio
from uuid import uuid4

import pytest

from buddy.errors import ToolError
from buddy.targets.contract import Entry, Finished
from tests.harness.processes import PATIENCE
from tests.targets.captured_output import CapturedOutput
from tests.targets.target_case import TargetCase, there


async def run(
    where: TargetCase, command: str, taken: CapturedOutput, nonce: str, timeout: float | None = None
) -> Finished:
    return await where.target.run(command, cwd=where.root, nonce=nonce, on_output=taken, timeout=timeout)


async def launchers(where: TargetCase, nonce: str) -> int:
    """How many processes carry the nonce there."""
    counted = f"grep -lszxF BUDDY_CALL={nonce} /proc/[0-9]*/environ 2>/dev/null | wc -l"
    return int(await there(where, counted))


async def test_both_streams_and_the_exit_code_are_returned(piped: TargetCase, nonce: str) -> None:
    taken = CapturedOutput()
    assert await run(piped, "pwd; echo oops >&2; exit 7", taken, nonce) == Finished(7)
    assert taken.output == {"stdout": f"{piped.root}\n".encode(), "stderr": b"oops\n"}


async def test_a_signal_is_a_negative_exit_code(where: TargetCase, nonce: str) -> None:
    assert await run(where, "kill -9 $$", CapturedOutput(), nonce) == Finished(-9)


async def test_output_arrives_while_the_command_runs(where: TargetCase, nonce: str) -> None:
    taken = CapturedOutput()
    running = asyncio.create_task(run(where, "echo first; while ! [ -e go ]; do sleep 0.05; done", taken, nonce))
    await taken.wait_for(b"first\n")
    assert not running.done()
    await where.target.write_file("go", b"", root=where.root)
    assert await running == Finished(0)


async def test_a_command_is_passed_on_unchanged(where: TargetCase, nonce: str) -> None:
    taken = CapturedOutput()
    await run(where, "printf '%s|' '$HOME' \"a'b\" '`id`' 'x\ny' \\\\; echo ü", taken, nonce)
    assert taken.output["stdout"].decode() == "$HOME|a'b|`id`|x\ny|\\|ü\n"


async def test_a_command_that_starts_with_a_dash_is_not_an_option(where: TargetCase, nonce: str) -> None:
    assert await run(where, "-c 'echo no'", CapturedOutput(), nonce) == Finished(127)


async def test_the_environment_has_the_nonce_and_the_passed_variables(piped: TargetCase, nonce: str) -> None:
    taken = CapturedOutput()
    env = {"MORE": "it's $HOME"}
    await piped.target.run("env", cwd=piped.root, nonce=nonce, on_output=taken, env=env)
    assert {f"BUDDY_CALL={nonce}", "MORE=it's $HOME"} <= set(taken.output["stdout"].decode().splitlines())


async def test_stdin_is_empty(piped: TargetCase, nonce: str) -> None:
    taken = CapturedOutput()
    assert await run(piped, "cat; echo done", taken, nonce) == Finished(0)
    assert taken.output["stdout"] == b"done\n"


async def test_a_large_binary_output_is_complete(piped: TargetCase, nonce: str) -> None:
    taken = CapturedOutput()
    await run(piped, "head -c 3000000 /dev/zero; head -c 1000000 /dev/zero >&2", taken, nonce)
    assert taken.output == {"stdout": bytes(3_000_000), "stderr": bytes(1_000_000)}


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
async def test_a_command_that_cannot_be_started_is_a_tool_error(where: TargetCase, nonce: str, command: str) -> None:
    with pytest.raises(ToolError, match="the command contains invalid bytes"):
        await run(where, command, CapturedOutput(), nonce)


async def test_a_missing_directory_is_a_tool_error(where: TargetCase, nonce: str) -> None:
    with pytest.raises(ToolError, match="does not exist"):
        await where.target.run("true", cwd=f"{where.root}/no", nonce=nonce, on_output=CapturedOutput())


STUBBORN = "trap '' TERM; (trap '' TERM; setsid sleep 600 & ) ; echo up; sleep 600; sleep 600"


async def test_a_cancelled_command_leaves_no_process(where: TargetCase, nonce: str) -> None:
    taken = CapturedOutput()
    running = asyncio.create_task(run(where, STUBBORN, taken, nonce))
    await taken.wait_for(b"up")
    assert await launchers(where, nonce) >= 2
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await launchers(where, nonce) == 0


async def test_a_timeout_ends_the_command_and_everything_it_started(piped: TargetCase, nonce: str) -> None:
    taken = CapturedOutput()
    finished = await run(piped, STUBBORN, taken, nonce, timeout=1.0)
    assert finished.timed_out
    assert await launchers(piped, nonce) == 0


async def test_a_background_job_does_not_block_the_call_and_is_found_as_an_orphan(
    where: TargetCase, nonce: str
) -> None:
    async with asyncio.timeout(PATIENCE):
        assert await run(where, "setsid sleep 600 & echo left", CapturedOutput(), nonce) == Finished(0)
    assert await where.target.kill_orphans(nonce[:-1]) == 0
    # Confined processes end with their command.
    assert await where.target.kill_orphans(nonce) == (0 if where.kind == "confined" else 1)
    assert await launchers(where, nonce) == 0


async def test_output_cannot_look_like_the_end(piped: TargetCase, nonce: str) -> None:
    taken = CapturedOutput()
    forged = f"{nonce} ended 0"
    assert await run(piped, f"printf '\\n{forged}\\n' >&2; echo still; exit 3", taken, nonce) == Finished(3)
    assert taken.output == {"stdout": b"still\n", "stderr": f"\n{forged}\n".encode()}


@pytest.mark.parametrize("content", [b"", bytes(range(256)) * 5000 + b"\n\n\n"])
async def test_a_file_is_read_back_as_written(where: TargetCase, content: bytes) -> None:
    await where.target.write_file("a/b c/'d'\n.bin", content, root=where.root)
    assert await where.target.read_file("a/b c/'d'\n.bin", root=where.root, limit=10_000_000) == content
    assert await where.target.read_file("a/b c/'d'\n.bin", root=where.root, limit=3) == content[:3]
    found = await where.target.stat("a/b c/'d'\n.bin", root=where.root)
    assert found is not None
    assert (found.size, found.is_dir) == (len(content), False)


async def test_replacing_a_file_keeps_its_mode_and_leaves_no_other_file(where: TargetCase) -> None:
    await there(where, f"cd {where.root}; echo old >tool; chmod 751 tool")
    await where.target.write_file("tool", b"new", root=where.root)
    assert await there(where, f"cd {where.root}; stat -c %a tool; cat tool; ls -A") == b"751\nnewtool\n"


async def test_a_change_updates_the_modification_time(where: TargetCase) -> None:
    await where.target.write_file("file", b"x", root=where.root)
    first = await where.target.stat("file", root=where.root)
    await there(where, f"touch -d '2020-01-01 00:00:00' {where.root}/file")
    second = await where.target.stat("file", root=where.root)
    assert first is not None
    assert second is not None
    assert second.modified_ns // 10**9 in range(1577750400, 1577923200)
    assert first.modified_ns > second.modified_ns


async def test_a_directory_is_listed(where: TargetCase) -> None:
    await there(where, f"cd {where.root}; mkdir -p d/sub; cd d; printf abc >.hidden; printf x >'a\nb'; ln -s sub link")
    listed = await where.target.list_dir("d", root=where.root)
    assert listed == [Entry(".hidden", False, 3), Entry("a\nb", False, 1), *listed[2:]]
    assert [(entry.name, entry.is_dir) for entry in listed[2:]] == [("link", False), ("sub", True)]
    assert await where.target.list_dir("d/sub", root=where.root) == []


async def test_a_missing_file_is_reported(where: TargetCase) -> None:
    assert await where.target.stat("no", root=where.root) is None
    assert await where.target.stat("no/deeper", root=where.root) is None
    for asked in (where.target.read_file("no", root=where.root, limit=1), where.target.list_dir("no", root=where.root)):
        with pytest.raises(ToolError) as refused:
            await asked
        assert refused.value.code == "FILE_NOT_FOUND"


OUTSIDE = ["../x", "/etc/passwd", "a/../../x", "out/passwd", "file", "deep/../../../etc/passwd"]


async def test_nothing_outside_the_root_is_touched(where: TargetCase) -> None:
    await there(where, f"cd {where.root}; mkdir -p a deep; ln -s /etc out; ln -s /etc/passwd file")
    before = await there(where, "cat /etc/passwd")
    for path in OUTSIDE:
        with pytest.raises(ToolError, match="outside"):
            await where.target.read_file(path, root=where.root, limit=10)
    for path in ("../x", "file", "out/passwd"):
        with pytest.raises(ToolError, match="outside"):
            await where.target.write_file(path, b"owned", root=where.root)
    with pytest.raises(ToolError, match="outside"):
        await where.target.stat("../x", root=where.root)
    with pytest.raises(ToolError, match="outside"):
        await where.target.list_dir("out", root=where.root)
    assert await there(where, "cat /etc/passwd") == before


async def test_links_inside_the_root_are_followed(where: TargetCase) -> None:
    await there(where, f"cd {where.root}; mkdir d; echo hi >d/f; ln -s d e; ln -s e/f g; ln -s {where.root}/g h")
    assert await where.target.read_file("h", root=where.root, limit=10) == b"hi\n"
    await where.target.write_file("h", b"new\n", root=where.root)
    assert await there(where, f"cat {where.root}/d/f; cd {where.root}; [ -L h ] && echo link") == b"new\nlink\n"


async def test_an_absolute_path_below_the_root_can_be_used(where: TargetCase) -> None:
    await where.target.write_file(f"{where.root}/x", b"1", root=where.root)
    assert await where.target.read_file("x", root=where.root, limit=9) == b"1"


async def test_the_root_can_be_named_by_its_absolute_path(where: TargetCase) -> None:
    await there(where, f"cd {where.root}; echo >x; ln -s . same")
    for path in (where.root, f"{where.root}/", ".", "same", f"{where.root}/same"):
        found = await where.target.stat(path, root=where.root)
        assert found is not None and found.is_dir
        assert await where.target.locate(path, root=where.root) == where.root
        assert [entry.name for entry in await where.target.list_dir(path, root=where.root)] == ["same", "x"]


async def test_only_regular_files_are_opened(where: TargetCase) -> None:
    await there(where, f"cd {where.root}; mkfifo fifo; ln -s /dev/zero device; mkdir directory; ln -s loop loop")
    async with asyncio.timeout(60):
        for name in ("fifo", "device", "directory", "loop"):
            with pytest.raises(ToolError):
                await where.target.read_file(name, root=where.root, limit=10)
            with pytest.raises(ToolError):
                await where.target.write_file(name, b"x", root=where.root)


@pytest.mark.parametrize("path", ["", "a\0b", "~/x", "x" * 5000])
async def test_an_invalid_path_is_refused(where: TargetCase, path: str) -> None:
    with pytest.raises(ToolError):
        await where.target.read_file(path, root=where.root, limit=10)


async def test_a_path_is_never_run_as_a_script(where: TargetCase) -> None:
    name = f"$(touch {uuid4().hex}); `id` 'x' \"y\" -rf"
    await where.target.write_file(name, b"safe", root=where.root)
    assert [entry.name for entry in await where.target.list_dir(".", root=where.root)] == [name]
