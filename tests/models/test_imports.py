"""The HTTP library is loaded by the first request, not before."""

import os
import subprocess
import sys

PROGRAM = """
import sys
from buddy.models.completions import Completions
from buddy.models.responses import Responses
from buddy.models.retry import Reliable
Reliable(Completions("p", "http://127.0.0.1:1/v1", "k", "m", 8192))
Reliable(Responses("p", "http://127.0.0.1:1/v1", "k", "m", 8192))
assert not {"httpx2", "xllamacpp"} & set(sys.modules)
"""


def test_making_a_provider_does_not_load_the_http_library() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, env=environment)
