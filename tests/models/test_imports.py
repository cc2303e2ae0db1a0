"""What a model costs before it is asked: neither creating a provider nor calling one loads httpx2."""

import os
import subprocess
import sys

PROGRAM = """
import asyncio, sys
from buddy.errors import ProviderError
from buddy.models.completions import Completions
from buddy.models.contract import Prompt, UserItem
from buddy.models.responses import Responses
from buddy.models.retry import RetryingProvider
RetryingProvider(Responses("p", "http://127.0.0.1:1/v1", "k", "m", 8192))
async def main():
    try:
        async for _ in Completions("p", "http://127.0.0.1:1/v1", "k", "m", 8192).stream(Prompt("", (UserItem("hi"),))):
            pass
    except ProviderError as error:
        assert "connection refused" in str(error)
asyncio.run(main())
assert not {"httpx2", "xllamacpp", "email"} & set(sys.modules)
"""


def test_calling_a_model_loads_no_http_library() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment)
