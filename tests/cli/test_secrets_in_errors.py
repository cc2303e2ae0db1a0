"""Errors never repeat a secret that was typed where something else belongs."""

import pytest

from tests.harness.home import Home

CANARY = "Lm9-canary-4fQz7Rk2Xw8Tn"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize("secret", [CANARY, TOKEN])
@pytest.mark.parametrize(
    "words",
    [
        ["exec", "go", "-C", "{}"],
        ["exec", "go", "-C", "/nonexistent/{}/x"],
        ["exec", "go", "--profile", "{}"],
        ["exec", "go", "--config", "{}"],
        ["exec", "go", "--agent-runtime", "{}"],
        ["exec", "go", "--sandbox", "{}"],
        ["exec", "go", "--approve", "{}"],
        ["exec", "go", "--max-time", "{}"],
        ["session", "show", "{}"],
        ["resume", "{}"],
        ["{}", "x", "y"],
        ["help", "{}"],
        ["exec", "go", "--{}"],
        ["project", "create", "{}", "/nonexistent/{}"],
    ],
)
def test_an_error_does_not_repeat_a_secret(home: Home, words: list[str], secret: str) -> None:
    home.env["DEPLOY_TOKEN"] = CANARY
    done = home.script({"text": "hi"}).run(*(word.format(secret) for word in words))
    assert done.code != 0
    assert "error: " in done.err
    assert secret not in done.err + done.out
