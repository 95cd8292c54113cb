"""Decide whether an IP address may be connected to for user code."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

Address: TypeAlias = IPv4Address | IPv6Address

# Of the registries of special-purpose addresses: Python's own idea of them changed between its releases.
_REFUSED_4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # in no registry: what Azure's machines have beside 169.254.169.254
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_PUBLIC_6: Final = IPv6Network("2000::/3")
_REFUSED_6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo among others
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "3fff::/20",
    )
)
_TRANSLATED: Final = IPv6Network("64:ff9b::/96")
_LOOPBACK_4: Final = IPv4Network("127.0.0.0/8")
_LOOPBACK_6: Final = IPv6Address("::1")


def read_address(text: str) -> Address:
    """Return the address that *text* is, an IPv4 address where it is one within IPv6.

    Raises:
        ValueError: the text is not an address, or has a zone, as link-local addresses have.
    """
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise ValueError(f"{text} has a zone")
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _TRANSLATED:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def is_public(address: Address) -> bool:
    """Whether *address* is one of the internet's, and no special one."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_4)
    return address in _PUBLIC_6 and not any(address in network for network in _REFUSED_6)


def is_loopback(address: Address) -> bool:
    """Whether *address* is a loopback address of this machine."""
    if isinstance(address, IPv4Address):
        return address in _LOOPBACK_4
    return address == _LOOPBACK_6
