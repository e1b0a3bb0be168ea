"""Addresses that outgoing calls must not reach: private networks, this machine, cloud metadata."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

from stepwell.errors import SettingsInvalid, excerpt

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Python's own `is_global` differs between versions and leaves out several of these.
_FORBIDDEN_4 = tuple(
    IPv4Network(text)
    for text in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
# Cloud machines get their credentials here, so an allowed network does not include them.
_METADATA = frozenset(
    ip_address(text)
    for text in (
        *("169.254.169.254", "169.254.170.2", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
        *("fd00:ec2::254", "fd20:ce::254"),
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
_FORBIDDEN_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
# Other addresses that contain an IPv4 address (6to4, Teredo) are forbidden; this one is in use.
_NAT64 = IPv6Network("64:ff9b::/96")


def inner(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_forbidden(address: Address) -> bool:
    """Return whether calls must not reach it unless an operator allows it."""
    outer, address = address, inner(address)
    if address in _METADATA or outer in _METADATA:
        return True
    if isinstance(address, IPv4Address):
        return any(address in network for network in _FORBIDDEN_4) or not address.is_global
    if address not in _GLOBAL_6:
        return True
    return any(address in network for network in _FORBIDDEN_6) or not address.is_global


class AllowedNetworks:
    """Private networks that an operator opened. A metadata address must be listed itself."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = tuple(_network(text) for text in networks)

    def __contains__(self, address: Address) -> bool:
        address = inner(address)
        for network in self._networks:
            whole = network.num_addresses == 1
            if (
                address.version == network.version
                and address in network
                and (whole or address not in _METADATA)
            ):
                return True
        return False


def _network(text: str) -> Network:
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise SettingsInvalid(
            f"{excerpt(text)} is not a network: {error}", hint="write 10.1.0.0/16, or one address"
        ) from None
