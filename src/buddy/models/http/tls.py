"""The certificates that TLS connections trust.

Invariants: they are the system's (`SSL_CERT_FILE` and `SSL_CERT_DIR` replace them), read once per process, in a thread:
while the first connection is being opened, or earlier where it is known that one will be.
"""

import os
import sys
import threading
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def preload_certificates(url: str) -> None:
    """This server will be called soon: start to read the certificates if its URL needs them."""
    if url.startswith("https:"):
        threading.Thread(target=ssl_context, daemon=True).start()


def ssl_context() -> "ssl.SSLContext":
    """The context of every connection; blocks while it is read."""
    with _reading:
        return read_certificates()


_reading = threading.Lock()


@cache
def read_certificates() -> "ssl.SSLContext":
    import ssl  # heavy, and not needed for a server on this machine

    if sys.platform == "linux" or "SSL_CERT_FILE" in os.environ or "SSL_CERT_DIR" in os.environ:
        return ssl.create_default_context()
    import truststore  # reads the system's own store, which OpenSSL can't on macOS

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
