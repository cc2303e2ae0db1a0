"""A person at a terminal, driven by the conformance suite: adds a server, is asked to log in, does so, and uses it.

`python -m tests.tools.mcp.conformance_login URL`. The browser is on another machine: its last address is pasted.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2

from tests.harness.processes import BUDDY, PATIENCE, clean_environment


def main(url: str) -> None:
    home = Path(tempfile.mkdtemp())
    env = clean_environment(HOME=str(home))

    def buddy(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*BUDDY, "mcp", *words], env=env, cwd=home, capture_output=True, text=True, timeout=PATIENCE, check=False
        )

    assert buddy("add", "suite", url).returncode == 0
    before = buddy("test", "suite")
    assert before.returncode == 1 and "needs login" in before.stdout, before
    words = [*BUDDY, "mcp", "login", "suite"]
    with subprocess.Popen(words, env=env, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as login:
        assert login.stdin is not None and login.stdout is not None
        address = next(line.strip() for line in login.stdout if line.strip())
        location = httpx2.get(address, follow_redirects=False).headers["location"]
        login.stdin.write(f"{location}\n")
        login.stdin.flush()
        assert login.wait(PATIENCE) == 0
    after = buddy("test", "suite")
    assert after.returncode == 0, after
    (stored,) = (home / ".config" / "buddy" / "mcp").iterdir()
    assert stored.stat().st_mode & 0o777 == 0o600


if __name__ == "__main__":
    main(sys.argv[1])
