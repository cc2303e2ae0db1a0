"""The certificates that TLS connections trust.

Invariants: they are the system's (`SSL_CERT_FILE` and `SSL_CERT_DIR` replace them), read once per process, in a thread:
while the first connection is being opened, or earlier where it is known that one will be.
"""

import os
import sys
import threading
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

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


class TlsFailure(NamedTuple):
    """Why a server cannot be reached by TLS, and what to do; most of it stays as it is until somebody does it."""

    why: str
    hint: str
    is_lasting: bool


def tls_failure(error: BaseException | None) -> TlsFailure | None:
    """What an error of a connection, or one that it was raised from, says of TLS; None if it says nothing."""
    import ssl

    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    match error:
        case None:
            return None
        case ssl.SSLCertVerificationError():
            why = f"its certificate is not trusted: {error.verify_message}"
            return TlsFailure(why, _HINTS.get(error.verify_code, _UNKNOWN_AUTHORITY), is_lasting=True)
        case ssl.SSLError() if error.reason in _PLAIN:
            return TlsFailure("it does not speak TLS", "should its URL begin with http:// instead?", is_lasting=True)
        case ssl.SSLError():
            why = (error.reason or str(error)).replace("_", " ").lower()
            return TlsFailure(f"TLS failed: {why}", "", is_lasting=False)


_PLAIN = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST")
_UNKNOWN_AUTHORITY = (
    "add its certificate authority to the system's certificates, or name a file of them in SSL_CERT_FILE"
)
_OTHER_TIME = "check the clock of this machine; if it is right, the server needs a new certificate"
_OTHER_HOST = "check the host in the URL: the certificate is for another one"
# By OpenSSL's X509_V_ERR_…: not yet valid, expired, another host, another address.
_HINTS = {9: _OTHER_TIME, 10: _OTHER_TIME, 62: _OTHER_HOST, 64: _OTHER_HOST}


@cache
def read_certificates() -> "ssl.SSLContext":
    import ssl  # heavy, and not needed for a server on this machine

    if sys.platform == "linux" or "SSL_CERT_FILE" in os.environ or "SSL_CERT_DIR" in os.environ:
        return ssl.create_default_context()
    import truststore  # reads the system's own store, which OpenSSL can't on macOS

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
