"""Which hosts a connection may reach. No test here resolves a real name."""

import socket
from collections.abc import Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fetcher.core.hosts import Network, checked_address
from fetcher.errors import RefusedError, UnavailableError

Answer = list[tuple[Any, ...]]

PUBLIC = "8.8.8.8"
PUBLIC6 = "2606:4700::1111"


def answers(*addresses: str) -> Callable[[str, None], Answer]:
    def resolve(host: str, port: None) -> Answer:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]

    return resolve


def fails(error: Exception) -> Callable[[str, None], Answer]:
    def resolve(host: str, port: None) -> Answer:
        raise error

    return resolve


def check(host: str, *resolved: str, allowed: Sequence[str] = (), local: bool = False) -> str:
    networks: list[Network] = [ip_network(text) for text in allowed]
    return checked_address(host, networks, loopback_allowed=local, resolve=answers(*resolved))


def refused(host: str, *resolved: str, allowed: Sequence[str] = (), local: bool = False) -> str:
    with pytest.raises(RefusedError) as caught:
        check(host, *resolved, allowed=allowed, local=local)
    assert caught.value.code == "FET-0414"
    return caught.value.message


@pytest.mark.parametrize("address", [PUBLIC, PUBLIC6, f"[{PUBLIC6}]", "172.32.0.1", "100.128.0.1", "2002:808:808::1"])
def test_a_public_address_is_connected_to_as_it_is(address: str) -> None:
    assert check(address) == address.strip("[]")


def test_a_name_is_connected_to_at_the_address_that_was_checked() -> None:
    """R-000-99: one look-up, so a second DNS answer cannot move the connection."""
    assert check("db.example", PUBLIC, PUBLIC6) == PUBLIC


ALWAYS = [
    "0.0.0.0",  # noqa: S104 — an address to refuse, not to bind
    "0.1.2.3",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808",
    "100::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "2001:2::1",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
]
ANYTHING = ["0.0.0.0/0", "::/0"]


@pytest.mark.parametrize("address", ALWAYS)
def test_no_permission_opens_what_is_always_refused(address: str) -> None:
    """R-000-99."""
    assert refused(address, allowed=ANYTHING) == refused("db.example", address, allowed=ANYTHING)


PRIVATE = ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fd12::1"]


@pytest.mark.parametrize("address", [*PRIVATE, "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::"])
def test_a_private_address_needs_permission(address: str) -> None:
    """R-000-99."""
    refused(address)
    refused("db.example", address, allowed=["192.0.2.0/24", "2001:db8::/32"])


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_inside_the_operators_networks_is_open(address: str) -> None:
    assert check(address, allowed=ANYTHING) == address
    assert check("db.example", address, allowed=ANYTHING) == address


def test_permission_ends_at_the_networks_edge() -> None:
    assert check("10.1.255.255", allowed=["10.1.0.0/16"]) == "10.1.255.255"
    refused("10.2.0.0", allowed=["10.1.0.0/16"])


def test_a_mapped_address_is_connected_to_as_ipv4() -> None:
    assert check("::ffff:8.8.8.8") == PUBLIC
    assert check("db.example", "::ffff:10.0.0.1", allowed=["10.0.0.0/8"]) == "10.0.0.1"


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_the_local_stage_may_reach_its_own_machine(address: str) -> None:
    assert ip_address(check(address, local=True)).is_loopback
    assert ip_address(check("localhost", address, local=True)).is_loopback


@pytest.mark.parametrize("address", ["64:ff9b::7f00:1", "2002:7f00:1::", "169.254.169.254", "10.0.0.1"])
def test_the_local_stage_opens_nothing_else(address: str) -> None:
    refused(address, local=True)


@pytest.mark.parametrize("position", range(3))
@pytest.mark.parametrize("bad", ["127.0.0.1", "10.0.0.1", "fe80::1%2", "not an address"])
def test_one_bad_address_among_several_refuses_the_name(position: int, bad: str) -> None:
    """R-000-99."""
    resolved = [PUBLIC, PUBLIC6]
    resolved.insert(position, bad)
    refused("db.example", *resolved)


@pytest.mark.parametrize(
    "host",
    [
        "2130706433",
        "127.1",
        "0177.0.0.1",
        "0x7f000001",
        "0X7F.1",
        "127.0.0.0x1",
        "010.0.0.1",
        "8.8.8.8.",
        "1.2.3",
        "0x",
    ],
)
def test_ipv4_in_disguise_is_not_even_resolved(host: str) -> None:
    refused(host, PUBLIC, allowed=ANYTHING, local=True)


@pytest.mark.parametrize("host", ["", " ", "[]"])
def test_a_blank_host_is_refused(host: str) -> None:
    refused(host, PUBLIC)


@pytest.mark.parametrize("host", ["db1", "db-0x1.example", "7.example", "1e100.net", "_srv.example"])
def test_digits_in_a_name_are_no_disguise(host: str) -> None:
    assert check(host, PUBLIC) == PUBLIC


@pytest.mark.parametrize("error", [socket.gaierror(-2, "unknown"), socket.gaierror(-3, "again"), TimeoutError()])
def test_a_name_that_does_not_resolve_is_unavailable(error: OSError) -> None:
    """R-002-59: so it is one of the tries."""
    with pytest.raises(UnavailableError) as caught:
        checked_address("db.example", (), loopback_allowed=False, resolve=fails(error))
    assert caught.value.__cause__ is error


def test_a_name_without_any_address_is_unavailable() -> None:
    with pytest.raises(UnavailableError):
        check("db.example")


def test_a_text_that_cannot_be_a_name_is_refused() -> None:
    with pytest.raises(RefusedError):
        checked_address("a..b", (), loopback_allowed=False, resolve=fails(UnicodeError("label empty")))


def test_every_refusal_reads_the_same() -> None:
    """Nobody can map a network by asking."""
    said = {refused("10.0.0.1"), refused("db.example", "169.254.169.254"), refused(""), refused("0x7f.1")}
    assert said == {"this host is not allowed"}


def meant(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    if isinstance(address, IPv4Address):
        return address
    if address in ip_network("64:ff9b::/96"):
        return IPv4Address(int(address) % 2**32)
    return address.ipv4_mapped or address.sixtofour or address


def reachable(address: IPv4Address | IPv6Address) -> bool:
    """An independent opinion: the standard library's registry of special addresses."""
    plain = meant(address)
    return plain.is_global and not plain.is_multicast and not plain.is_reserved


@given(st.lists(st.ip_addresses(), min_size=1, max_size=4))
@example([IPv4Address("8.8.8.8"), IPv6Address("2606:4700::1111")])
def test_what_is_returned_is_always_globally_reachable(addresses: list[IPv4Address | IPv6Address]) -> None:
    """R-000-99."""
    try:
        address = check("db.example", *map(str, addresses))
    except RefusedError:
        return
    assert reachable(ip_address(address))
    assert all(map(reachable, addresses))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_judged_alike_in_every_ipv6_wrapping(address: IPv4Address) -> None:
    plain = passes(str(address))
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        assert passes(str(IPv6Address(int(IPv6Address(prefix)) | int(address)))) == plain
    assert passes(str(IPv6Address(0x2002 << 112 | int(address) << 80))) == plain


def passes(address: str) -> bool:
    try:
        check(address)
    except RefusedError:
        return False
    return True
