"""What a start leaves out is there as soon as it is asked for."""

import subprocess
import sys

AFTER = """
import asyncio, pathlib, subprocess, sys
import msgspec, uuid
left_out = {"_hashlib", "_ssl", "ast", "dis", "typing_extensions"} & set(sys.modules)
assert not left_out, left_out
loop = asyncio.new_event_loop()
loop.close()
loaded = set(NAMES) - {name for name, module in sys.modules.items() if type(module) is Later}
assert not loaded - {"fnmatch", "linecache"}, loaded  # which newer Pythons use at once

import inspect, ipaddress, locale, ntpath, platform, ssl, textwrap, tokenize, typing_extensions
assert list(inspect.signature(lambda one, two: None).parameters) == ["one", "two"]
assert inspect is not sys.modules["inspect"] and inspect.signature is sys.modules["inspect"].signature
assert str(ipaddress.ip_address("::1")) == "::1" and locale.getlocale() and ntpath.join("a", "b") == r"a\\b"
assert platform.python_version() and platform.system() == sys.modules["platform"].system()
assert textwrap.dedent(" x") == "x" and tokenize.EXACT_TOKEN_TYPES and typing_extensions.NotRequired
assert issubclass(ssl.SSLWantReadError, OSError) and ssl.SSLSocket is sys.modules["ssl"].SSLSocket
assert ssl.SSLSocket.__mro__[1].__name__ == "socket" and asyncio.sslproto.SSLProtocol

import tomllib._parser, typing
assert set(typing.get_type_hints(tomllib._parser.Output)) == {"data", "flags"} and "compile" not in vars(typing)
import datetime, hashlib, importlib.util, io, logging, logging.handlers, string, traceback
assert hashlib.sha256(b"x").digest()[:2] == bytes.fromhex("2d71") and "_hashlib" not in sys.modules
assert hashlib.sha256(bytes(5000)).digest() == hashlib.new("sha256", bytes(5000)).digest()
assert hashlib.sha256(b"x").digest() == sys.modules["hashlib"].sha256(b"x").digest() and "_hashlib" in sys.modules
assert msgspec.json.encode(datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)) == b'"2026-01-02T00:00:00Z"'
assert datetime.MINYEAR == 1 and datetime.datetime is sys.modules["datetime"].datetime
assert importlib.util.find_spec("json").name == "json" and importlib.util.MAGIC_NUMBER
heard = io.StringIO()
asyncio.log.logger.debug("not heard")
logging.basicConfig(stream=heard, level=logging.DEBUG, format="%(name)s %(message)s")
asyncio.log.logger.debug("heard %s", 1)
sys.modules["concurrent.futures._base"].LOGGER.critical("heard, too")
assert heard.getvalue() == "asyncio heard 1\\nconcurrent.futures heard, too\\n", heard.getvalue()
assert logging.handlers.RotatingFileHandler and logging.getLogger("a") is sys.modules["logging"].getLogger("a")
assert string.Template("$a").substitute(a="b") == "b" and string.ascii_letters == sys.modules["string"].ascii_letters
assert subprocess.run([sys.executable, "-c", "print(1)"], stdout=subprocess.PIPE).stdout == b"1\\n"
assert subprocess.DEVNULL == sys.modules["subprocess"].DEVNULL and traceback.extract_stack()[-1].lineno
assert msgspec.inspect.type_info(int) == msgspec.inspect.IntType() and msgspec.json.schema(int) == {"type": "integer"}
assert msgspec.msgpack.encode(1) == b"\\x01"


async def connect():
    with sys.modules["socket"].create_server(("127.0.0.1", 0)) as server:
        _, writer = await asyncio.open_connection(*server.getsockname())
        writer.close()


asyncio.run(connect())
"""


def test_what_was_put_off_is_loaded_by_who_uses_it() -> None:
    program = f"from buddy.cli.later import NAMES, _Later as Later, put_off\nput_off()\n{AFTER}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_there_already_is_left_as_it_is() -> None:
    after = "assert inspect.ismodule(ssl) and ssl.SSLSocket.__mro__[1].__name__ == 'socket'"
    program = f"import inspect, ssl\nfrom buddy.cli.later import put_off\nput_off()\n{after}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
