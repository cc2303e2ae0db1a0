"""What a start leaves out is there as soon as it is asked for."""

import subprocess
import sys

AFTER = """
import asyncio, pathlib, subprocess, sys
import msgspec, uuid
left_out = {"_ssl", "ast", "dis", "typing_extensions"} & set(sys.modules)
assert not left_out, left_out

import inspect, ipaddress, locale, ntpath, platform, ssl, textwrap, tokenize, typing_extensions
assert list(inspect.signature(lambda one, two: None).parameters) == ["one", "two"]
assert inspect is not sys.modules["inspect"] and inspect.signature is sys.modules["inspect"].signature
assert str(ipaddress.ip_address("::1")) == "::1" and locale.getlocale() and ntpath.join("a", "b") == r"a\\b"
assert platform.python_version() and platform.system() == sys.modules["platform"].system()
assert textwrap.dedent(" x") == "x" and tokenize.EXACT_TOKEN_TYPES and typing_extensions.NotRequired
assert issubclass(ssl.SSLWantReadError, OSError) and ssl.SSLSocket is sys.modules["ssl"].SSLSocket
assert ssl.SSLSocket.__mro__[1].__name__ == "socket" and asyncio.sslproto.SSLProtocol


async def connect():
    with sys.modules["socket"].create_server(("127.0.0.1", 0)) as server:
        _, writer = await asyncio.open_connection(*server.getsockname())
        writer.close()


asyncio.run(connect())
"""


def test_what_was_put_off_is_loaded_by_who_uses_it() -> None:
    program = f"from buddy.cli.later import put_off\nput_off()\n{AFTER}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_there_already_is_left_as_it_is() -> None:
    after = "assert inspect.ismodule(ssl) and ssl.SSLSocket.__mro__[1].__name__ == 'socket'"
    program = f"import inspect, ssl\nfrom buddy.cli.later import put_off\nput_off()\n{after}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
