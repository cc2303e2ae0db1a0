"""A confined session starts by the last verdict; its commands only by a proof in this process."""

from pathlib import Path

import pytest

from buddy.errors import ProtocolError, ToolError
from buddy.targets.choose import OwnDirectories, TargetRequest, choose, verify_target
from buddy.targets.confine import deferred, probe
from buddy.targets.confine.deferred import DeferredConfined
from buddy.targets.confine.probe import ProbeResult
from buddy.targets.confine.target import Confined
from buddy.targets.confine.verdict import Verdict, read_verdict, write_verdict
from buddy.targets.contract import Target
from buddy.targets.local import Local
from tests.targets.captured_output import CapturedOutput


@pytest.fixture
def own(tmp_path: Path) -> OwnDirectories:
    (tmp_path / "state").mkdir()
    (tmp_path / "work").mkdir()
    return OwnDirectories(tmp_path / "config", tmp_path / "state", tmp_path / "run")


@pytest.fixture
def target(own: OwnDirectories) -> Target:
    return choose(TargetRequest("local", str(own.state_dir.parent / "work"), "confined"), own).target


def fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "probe", lambda: ProbeResult(reason="it does not hold here"))
    monkeypatch.setattr(deferred, "_was_probed", lambda: False)


async def test_a_proof_that_fails_after_the_start_fails_the_command(
    own: OwnDirectories, target: Target, monkeypatch: pytest.MonkeyPatch, nonce: str
) -> None:
    fail(monkeypatch)
    write_verdict(str(own.state_dir), Verdict("bubblewrap"))
    work = str(own.state_dir.parent / "work")
    await verify_target(target, work)
    with pytest.raises(ToolError, match="it does not hold here") as refused:
        await target.run("touch made", cwd=work, nonce=nonce, on_output=CapturedOutput())
    assert refused.value.code == "SANDBOX_UNREACHABLE"
    assert not (own.state_dir.parent / "work" / "made").exists()
    assert read_verdict(str(own.state_dir)) == Verdict("", "it does not hold here")


@pytest.mark.parametrize("last", [None, Verdict("", "another reason")])
async def test_without_a_good_verdict_the_start_waits_for_the_proof(
    own: OwnDirectories, target: Target, monkeypatch: pytest.MonkeyPatch, last: Verdict | None
) -> None:
    fail(monkeypatch)
    if last is not None:
        write_verdict(str(own.state_dir), last)
    with pytest.raises(ProtocolError, match="it does not hold here") as refused:
        await verify_target(target, str(own.state_dir.parent / "work"))
    assert refused.value.code == "SANDBOX_UNAVAILABLE"


def test_everything_that_confinement_changes_is_passed_on() -> None:
    def changed(kind: type[Local]) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert changed(DeferredConfined) == changed(Confined)
