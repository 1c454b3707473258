"""Which addresses a connection may reach: the guard of `design.md` §11.

    always refused   loopback (but for the local stage), link-local, metadata services, unspecified,
                     multicast, documentation, benchmarks, everything reserved
    by permission    private networks and carrier-grade NAT, when inside the operator's networks
    open             the rest

Every address that a name resolves to must pass, and the caller connects to the very address that is
returned: a second DNS answer cannot move it (R-000-99).
"""

import re
import socket
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any

from fetcher.errors import RefusedError, UnavailableError

FORBIDDEN = "FET-0414"

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
Resolve = Callable[[str, None], Iterable[tuple[Any, ...]]]

LOOPBACK = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))

BY_PERMISSION = (
    IPv4Network("10.0.0.0/8"),
    IPv4Network("172.16.0.0/12"),
    IPv4Network("192.168.0.0/16"),
    IPv4Network("100.64.0.0/10"),  # carrier-grade NAT
    IPv6Network("fc00::/7"),
)

REFUSED = (
    IPv4Network("0.0.0.0/8"),
    IPv4Network("100.100.100.200/32"),  # a metadata service inside carrier-grade NAT
    IPv4Network("168.63.129.16/32"),  # a platform service at a public address
    IPv4Network("169.254.0.0/16"),
    IPv4Network("192.0.0.0/24"),
    IPv4Network("192.0.2.0/24"),
    IPv4Network("192.88.99.0/24"),
    IPv4Network("198.18.0.0/15"),
    IPv4Network("198.51.100.0/24"),
    IPv4Network("203.0.113.0/24"),
    IPv4Network("224.0.0.0/4"),
    IPv4Network("240.0.0.0/4"),
    IPv6Network("2001::/23"),  # protocol assignments, Teredo among them: it hides an IPv4 address
    IPv6Network("2001:db8::/32"),
    IPv6Network("3fff::/20"),
    IPv6Network("fd00:ec2::/32"),  # metadata and other instance services inside a private range
)

GLOBAL_IPV6 = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")

_LEGACY_IPV4 = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)\.?", re.IGNORECASE)
"""Names that C libraries read as IPv4: their last label is a decimal, octal or hexadecimal number."""


def checked_address(
    host: str,
    allowed_networks: Sequence[Network],
    *,
    loopback_allowed: bool,
    resolve: Resolve = socket.getaddrinfo,
) -> str:
    """Return the address to connect to.

    Raises `RefusedError` (FET-0414), with one text whatever the reason, so that nobody can map a
    network with it; `UnavailableError` when the name does not resolve now.
    """
    addresses = [_plain(address) for address in _addresses(host, resolve)]
    if not all(_passes(address, allowed_networks, loopback_allowed) for address in addresses):
        raise _refused()
    return str(addresses[0])


def _addresses(host: str, resolve: Resolve) -> list[Address]:
    bare = host.removeprefix("[").removesuffix("]")
    literal = _literal(bare)
    if literal is not None:
        return [literal]
    if not bare.strip() or _LEGACY_IPV4.fullmatch(host):
        raise _refused()
    return _resolved(host, resolve)


def _resolved(host: str, resolve: Resolve) -> list[Address]:
    try:
        found = [_literal(str(info[4][0])) for info in resolve(host, None)]
    except OSError as error:
        raise UnavailableError("the host name does not resolve") from error
    except ValueError as error:  # not a name at all: an empty or endless label, a NUL
        raise _refused() from error
    if not found:
        raise UnavailableError("the host name does not resolve")
    return [address or _unreadable() for address in found]


def _unreadable() -> Address:
    raise _refused()


def _literal(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _plain(address: Address) -> Address:
    """Connect to a mapped IPv4 address as what it is."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _passes(address: Address, allowed: Sequence[Network], loopback_allowed: bool) -> bool:
    hidden = _embedded(address)
    if hidden is not None:
        return _passes(hidden, allowed, loopback_allowed=False)
    if _in(address, LOOPBACK):
        return loopback_allowed
    if _in(address, REFUSED):
        return False
    if _in(address, BY_PERMISSION):
        return _in(address, allowed)
    return isinstance(address, IPv4Address) or address in GLOBAL_IPV6


def _embedded(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that a translator would reach for this IPv6 one."""
    if isinstance(address, IPv4Address):
        return None
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in NAT64 else address.sixtofour


def _in(address: Address, networks: Sequence[Network]) -> bool:
    return any(address in network for network in networks)


def _refused() -> RefusedError:
    return RefusedError("this host is not allowed", code=FORBIDDEN)
