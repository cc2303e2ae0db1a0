"""Which addresses may be fetched from."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buddy.errors import ToolError
from buddy.tools.fetch.addresses import is_public, normal_host, parse_url, refuse_closed

METADATA = "169.254.169.254"
FULL_WIDTH = METADATA.translate({code: code + 0xFEE0 for code in range(0x30, 0x3A)})


@pytest.mark.parametrize(
    "host",
    [
        "2852039166", "0xa9fea9fe", "0xA9.0xFE.0xA9.0xFE", "0251.0376.0251.0376", "169.254.43518", "169.16689662",
        "169.254.169.254..", "0251.254.0xa9.254", "0xA9FEA9FE", "169.254.0xa9fe", "\u2460\u2465\u2468.254.169.254",
        FULL_WIDTH, "169。254。169。254", "169.254.169.254.",
    ],
)  # fmt: skip
def test_every_spelling_of_a_number_is_the_same_address(host: str) -> None:
    assert normal_host(host) == METADATA
    with pytest.raises(ToolError, match="not on the public internet"):
        refuse_closed(host, [normal_host(host)])


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.1",
        "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.0.1", "::1", "::", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe",
        "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "fc00::1", "fd12::1", "fe80::1", "fec0::1", "ff02::1",
        "2001:db8::1", "100::1", "::127.0.0.1",
    ],
)  # fmt: skip
def test_closed_addresses_are_closed(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "2a00:1450::1"]
)
def test_public_addresses_are_open(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@given(st.ip_addresses())
def test_what_is_open_is_global_by_the_standard_library_too(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if is_public(address):
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        assert (mapped or address).is_global


@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd", "gopher://x/", "ftp://x/", "data:text/plain,x", "unix:/x", "/etc/passwd", "http://", "http://u:p@x/",
        "http://x\\@y/", "http://x y/", "http://x\n/", "http://[::1", "http://x:99999/", "javascript:1", "http://exa mple.com/",
        "http://[v1.a]/", "http://[::zz]/", "http://1.1.1.1:0/", "http://::1/", "http://[::1/", "http:/x", "http:x", "//x/", "http://@x/",
        "http://1.1.1.1&@127.0.0.1/", "http://127.0.0.1:80@1.1.1.1/", "http://256.1.1.1/", "http://08.1.1.1/", "http://ex%61mple.com/",
        "http://x%00.evil.com/", "http:\\\\x/", "jar:http://x!/", "view-source:http://x/", "ws://x/", "blob:http://x", "http://x/\tb",
        "http://\u202e.com/", "http://.x/", "http://x:80:80/", "http://a..b/", "http://" + "a" * 300 + ".com/",
    ],
)  # fmt: skip
def test_what_is_not_a_web_address_is_refused(text: str) -> None:
    with pytest.raises(ToolError):
        parse_url(text)


def test_a_name_with_one_closed_address_is_refused() -> None:
    with pytest.raises(ToolError, match=r"10\.0\.0\.1"):
        refuse_closed("both.example", ["1.1.1.1", "10.0.0.1"])


def test_names_are_normalised() -> None:
    assert (
        str(parse_url("HTTPS://Exämple.COM:443/a b?q=ü#frag".replace(" ", "%20")))
        == "https://xn--exmple-cua.com/a%20b?q=%C3%BC"
    )
    assert str(parse_url("http://[2606:4700::1]:8080/")) == "http://[2606:4700::1]:8080/"
