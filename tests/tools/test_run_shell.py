import asyncio
import resource
from pathlib import Path
from uuid import uuid4

import pytest

from buddy.errors import ToolError
from buddy.targets import orphans
from buddy.tools.contract import Call, Output, Place
from buddy.tools.output_buffer import OutputBuffer
from buddy.tools.run_shell import RunShell, RunShellArgs


async def test_the_result_has_exit_code_and_both_streams(call: Call, output: list[tuple[str, bytes]]) -> None:
    result = await RunShell().run(RunShellArgs("echo out; echo err >&2"), call)
    assert result == Output("exit code: 0\nstdout:\nout\nstderr:\nerr", exit_code=0)
    assert sorted(output) == [("stderr", b"err\n"), ("stdout", b"out\n")]


async def test_empty_sections_are_left_out(call: Call) -> None:
    assert (await RunShell().run(RunShellArgs("true"), call)).text == "exit code: 0"
    assert (await RunShell().run(RunShellArgs("echo e >&2"), call)).text == "exit code: 0\nstderr:\ne"


async def test_a_failed_command_is_an_error_with_its_exit_code(call: Call) -> None:
    result = await RunShell().run(RunShellArgs("exit 3"), call)
    assert result == Output("exit code: 3", exit_code=3, is_error=True, error_type="EXEC_NON_ZERO_EXIT")


async def test_output_that_is_not_utf8_is_shown_with_replacements(call: Call) -> None:
    result = await RunShell().run(RunShellArgs(r"printf '\xff\xfe ok \xc3\xa4'"), call)
    assert result.text == "exit code: 0\nstdout:\n\ufffd\ufffd ok ä"


@pytest.mark.parametrize("wait", [1, "1s", "1000ms", "1"])
async def test_a_command_beyond_its_limit_is_ended_and_that_is_said(call: Call, wait: int | str) -> None:
    with pytest.raises(ToolError, match=r"did not end within 1.*were killed") as caught:
        await RunShell().run(RunShellArgs("echo begun; sleep 100 & sleep 100", wait=wait), call)
    assert caught.value.code == "EXEC_TIMEOUT"
    assert "begun" in str(caught.value)
    assert orphans.find(call.nonce) == []


@pytest.mark.parametrize("wait", ["soon", "-1s", "0", 0, -5, "", "1w", "99999999999s"])
async def test_an_invalid_wait_is_refused_and_nothing_runs(call: Call, root: Path, wait: int | str) -> None:
    with pytest.raises(ToolError, match="is not a duration"):
        await RunShell().run(RunShellArgs("touch ran", wait=wait), call)
    assert not (root / "ran").exists()


async def test_not_waiting_needs_tmux(call: Call) -> None:
    with pytest.raises(ToolError, match="tmux"):
        await RunShell().run(RunShellArgs("true", wait=False), call)


async def test_waiting_until_the_end_is_the_default(call: Call) -> None:
    for wait in (None, True, "1h", "2d"):
        assert (await RunShell().run(RunShellArgs("true", wait=wait), call)).exit_code == 0


async def test_a_command_runs_in_the_directory_that_was_asked_for(call: Call, root: Path) -> None:
    (root / "sub").mkdir()
    assert (await RunShell().run(RunShellArgs("pwd", cwd="sub"), call)).text.endswith(f"{root}/sub")


@pytest.mark.parametrize("cwd", ["/", "..", "~", "missing", "file", "out"])
async def test_a_directory_outside_the_workspace_is_refused(call: Call, root: Path, cwd: str) -> None:
    (root / "file").touch()
    (root / "out").symlink_to("/")
    with pytest.raises(ToolError):
        await RunShell().run(RunShellArgs("touch ran", cwd=cwd), call)


async def test_cancelling_the_call_ends_the_command(place: Place) -> None:
    begun = asyncio.Event()

    async def note(_stream: str, _chunk: bytes) -> None:
        begun.set()

    nonce = uuid4().hex
    running = asyncio.create_task(
        RunShell().run(RunShellArgs("trap '' TERM; echo x; sleep 100; sleep 100"), Call("c", place, nonce, note))
    )
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert orphans.find(nonce) == []


async def test_a_flood_is_kept_by_head_and_tail_and_memory_stays_bounded(place: Place) -> None:
    async def ignore(_stream: str, _chunk: bytes) -> None:
        pass

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    command = "echo first; echo warning >&2; head -c 50000000 /dev/zero | tr '\\0' x; echo; echo last"
    result = await RunShell().run(RunShellArgs(command), Call("c", place, uuid4().hex, ignore))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert result.text.startswith("exit code: 0\nstdout:\nfirst\n")
    assert result.text.endswith("last\nstderr:\nwarning")
    left_out = 50_000_000 + len("first\n\nlast\nwarning\n") - 10 * 1024 * 1024
    assert f"[... {left_out} bytes left out ...]" in result.text
    assert len(result.text) < 10 * 1024 * 1024 + 200
    assert grown < 80


def test_what_is_kept_never_exceeds_its_limit_and_counts_what_it_lost() -> None:
    kept = OutputBuffer(limit=100)
    for number in range(1000):
        kept.add("stdout", b"%03d," % number)
    kept.add("stderr", b"problem")
    assert kept.text("stdout").startswith("000,001,")
    assert kept.text("stdout").endswith("998,999,")
    assert kept.text("stderr") == "problem"
    assert "[... 3907 bytes left out ...]" in kept.text("stdout")
    kept.add("stderr", b"y" * 500)
    assert len(kept.text("stdout")) + len(kept.text("stderr")) < 200


async def test_the_intent_shows_everything_that_will_run(place: Place, root: Path) -> None:
    (root / "sub").mkdir()
    (root / "link").symlink_to("sub")
    intent = await RunShell().intent(RunShellArgs("make x && rm -rf y", cwd="link"), place)
    assert intent.kind == "exec"
    assert intent.summary == "make x && rm -rf y"
    assert intent.details == {
        "command": "make x && rm -rf y",
        "cwd": f"{root}/sub",
        "target": "local",
        "sandbox": "host",
        "environment": {},
        "wait": None,
        "scripts": {},
        "scriptsComplete": True,
    }


@pytest.mark.parametrize(
    "command",
    [
        "./b.sh",
        "bash b.sh",
        "bash -x b.sh",
        "A=1 ./b.sh -v",
        "true && ./b.sh|cat",
        "cat `./b.sh`",
        "echo $(./b.sh)",
        'sh "b.sh"',
        "sh './b.sh'",
        "cd sub && ../b.sh",
        "cd sub; ./inner",
        "if ./plain; then echo; fi",
        "sh plain",
        "./my\\ script",
        "'my script'",
        "cat b.sh",
    ],
)
async def test_rewriting_a_script_that_the_command_names_changes_the_intent(
    place: Place, root: Path, command: str
) -> None:
    (root / "sub").mkdir()
    scripts = [root / "b.sh", root / "sub" / "inner", root / "plain", root / "my script"]
    for script in scripts:
        script.write_text("echo good")
    before = await RunShell().intent(RunShellArgs(command), place)
    assert before == await RunShell().intent(RunShellArgs(command), place)
    for script in scripts:
        script.write_text("echo evil")
    after = await RunShell().intent(RunShellArgs(command), place)
    assert before.details["scripts"].keys() == after.details["scripts"].keys() != set()
    assert before.details["scripts"] != after.details["scripts"]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("make", "Makefile"), ("make test", "Makefile"), ("make -s -j4 all", "GNUmakefile"),
        ("make -C sub", "sub/makefile"), ("make -f rules x", "rules"), ("make --file rules", "rules"),
        ("cd sub && make", "sub/Makefile"), ("npm test", "package.json"), ("npm run build", "package.json"),
        ("yarn build", "package.json"), ("npm --prefix sub test", "sub/package.json"), ("python x.py", "x.py"),
        ("python -u x", "x"), ("python3 -m tool.run", "tool/run.py"), ("python -m tool", "tool/__main__.py"),
        ("pytest -q", "conftest.py"), ("timeout 5 ./x", "x"), ("timeout 5s bash x", "x"), ("env A=1 ./x", "x"),
        ("nice ./x", "x"), ("pip install .", "setup.py"), ("cargo test", "build.rs"), ("just x", "justfile"),
        ("rake", "Rakefile"), ("tox", "tox.ini"), ("xargs ./x", "x"), ("sudo ./x", "x"), ("node x", "x"),
        ("bash < x.sh", "x.sh"), ("awk -f prog", "prog"), ("cmake .", "CMakeLists.txt"),
    ],
)  # fmt: skip
async def test_files_that_a_program_reads_implicitly_are_bound_too(
    place: Place, root: Path, command: str, name: str
) -> None:
    (root / "sub").mkdir()
    file = root / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("good")
    before = (await RunShell().intent(RunShellArgs(command), place)).details["scripts"]
    file.write_text("evil")
    after = (await RunShell().intent(RunShellArgs(command), place)).details["scripts"]
    assert str(file) in before
    assert before[str(file)] != after[str(file)]


async def test_a_program_of_the_workspace_that_is_found_by_name_is_bound(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "bin").mkdir()
    (root / "bin" / "tool").write_text("#!/bin/sh\necho good\n")
    (root / "bin" / "tool").chmod(0o700)
    monkeypatch.setenv("PATH", f"{root}/bin:/usr/bin:/bin")
    details = (await RunShell().intent(RunShellArgs("tool x && ls"), place)).details
    assert list(details["scripts"]) == [f"{root}/bin/tool"]


@pytest.mark.parametrize(
    "command",
    [
        "sh < plain", "cat plain | sh", "bash -s < plain", "bash <(cat plain)", 'eval "$(cat plain)"', "$(cat plain)",
        "python3.11 plain", 'bash -c "cd sub && sh ../plain"', "bash -c 'true; ./plain'", 'bash "$PWD/plain"',
        "BASH_ENV=plain ls", "GIT_PAGER=./plain git log", "git -c core.pager=./plain log", "sed -fplain x",
        "perl -r./plain", "gdb -x plain", "vim -S plain", "a=./plain; $a", "unheard-of plain", "make --file=plain",
        "find . -exec plain ;", "./outer.sh", "python tool",
    ],
)  # fmt: skip
async def test_whatever_may_be_run_by_a_command_is_bound(place: Place, root: Path, command: str) -> None:
    (root / "sub").mkdir()
    (root / "tool").mkdir()
    files = [root / "plain", root / "tool" / "__main__.py"]
    (root / "outer.sh").write_text("#!/bin/sh\n. ./plain\n")
    for file in files:
        file.write_text("good")
    before = (await RunShell().intent(RunShellArgs(command), place)).details["scripts"]
    for file in files:
        file.write_text("evil")
    after = (await RunShell().intent(RunShellArgs(command), place)).details["scripts"]
    assert any(before.get(str(file), "") != after.get(str(file), "") for file in files)


async def test_the_scripts_that_a_command_names_are_shown(place: Place, root: Path) -> None:
    (root / "b.sh").write_text("#!/bin/sh\nrm -rf x\n")
    (root / "long.sh").write_text("true\n" * 10_000)
    (root / "Makefile").write_text("all:\n")
    details = (await RunShell().intent(RunShellArgs("./b.sh && sh long.sh && make"), place)).details
    assert list(details["scripts"]) == [f"{root}/{name}" for name in ("Makefile", "b.sh", "long.sh")]
    assert details["scriptTexts"] == {f"{root}/b.sh": "#!/bin/sh\nrm -rf x\n"}


@pytest.mark.parametrize("command", ["bash b*", "sh $x", "bash /srv/x.sh", "bash ~/x.sh"])
async def test_a_command_says_where_it_may_run_what_was_not_looked_at(place: Place, command: str) -> None:
    assert (await RunShell().intent(RunShellArgs(command), place)).details["scriptsComplete"] is False


@pytest.mark.parametrize("command", ["tail -f app.log", "echo x > app.log", "(true) >> app.log 2>&1", "cat < app.log"])
async def test_data_that_the_command_names_is_not_bound(place: Place, root: Path, command: str) -> None:
    (root / "app.log").write_text("line\n")
    assert (await RunShell().intent(RunShellArgs(command), place)).details["scripts"] == {}


async def test_scripts_outside_the_workspace_are_not_opened(place: Place, root: Path) -> None:
    (root.parent / "x.sh").write_text("x")
    (root / "link.sh").symlink_to("../x.sh")
    intent = await RunShell().intent(RunShellArgs(f"sh ../x.sh; sh {root.parent}/x.sh; sh link.sh"), place)
    assert intent.details["scripts"] == {}


async def test_a_command_of_a_great_many_words_says_that_not_all_were_looked_at(place: Place) -> None:
    command = " ".join(f"w{number}" for number in range(5000))
    assert (await RunShell().intent(RunShellArgs(command), place)).details["scriptsComplete"] is False
