"""Decide where user code may send HTTP requests: to which hosts, and to which of their addresses."""

import asyncio
import math
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final, TypeAlias

import httpx

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.kernel.concurrency import Limiter
from gcp_adk_store.kernel.operation import require_members

Address: TypeAlias = IPv4Address | IPv6Address

# Of the registries of special-purpose addresses: Python's own idea of them changed between its releases.
_REFUSED: Final = tuple(
    ip_network(text)
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
        "2001::/23",  # Teredo among others
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "3fff::/20",
    )
)
_PUBLIC: Final = (ip_network("0.0.0.0/0"), ip_network("2000::/3"))
"""What may be public; only a network of an address's own version has it."""
_TRANSLATED: Final = ip_network("64:ff9b::/96")


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
    may_be = any(address in network for network in _PUBLIC)
    return may_be and not any(address in network for network in _REFUSED)


Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Given a name and a port, returns the IP addresses to connect to."""

_HOST: Final = re.compile(r"[a-z0-9._:-]+")
_PORTS: Final = {"http": 80, "https": 443}
_LARGEST_PORT: Final = 65_535


_THREADS: Final = 64
_THREADS_OF_ONE: Final = 4


@cache
def _look_ups(_process: int) -> tuple[ThreadPoolExecutor, Limiter]:
    """Return the threads that look names up, and the permits of each user; a fork has none of its parent's.

    The event loop's own threads do not: slow names would delay all work of this process.
    """
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="gcp-adk-store-names")
    return threads, Limiter(at_once=_THREADS_OF_ONE)


async def look_up(host: str, port: int, asker: str) -> list[str]:
    """Return the addresses of *host*; *asker* is the user who waits for them.

    A lookup goes on until the resolver of the system ends, also after a timeout, and keeps its permit until
    then.
    """
    threads, limiter = _look_ups(os.getpid())
    permit = await limiter.acquire(asker)
    try:
        work = threads.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
    except BaseException:
        limiter.release(permit)
        raise
    work.add_done_callback(lambda _: limiter.release(permit))
    found = await asyncio.wrap_future(work)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class RefusedError(Exception):
    """A request is not sent; the message says to the author of the code why."""


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """One entry of a policy."""

    name: str
    """In lower case and without the dot at its end; ``*`` at its start is any further labels."""
    port: str
    """A number, ``*``, or nothing for the one of the scheme."""

    @classmethod
    def of(cls, text: str) -> "AllowedHost":
        """Return the entry that *text* encodes.

        Raises:
            InvalidInputError: *text* is not a host.
        """
        host, port = text.strip(), ""
        if host.startswith("[") or host.count(":") <= 1:  # what has more is an IPv6 address without a port
            before, colon, after = host.rpartition(":")
            if colon and not after.endswith("]"):
                host, port = before, after
        if port not in {"", "*"} and not (port.isdecimal() and 0 < int(port) <= _LARGEST_PORT):
            raise InvalidInputError(f"allowed host {text!r}: the port is a number or *")
        if host == "*":
            return cls(name=host, port=port)
        name = host.removeprefix("*.")
        try:
            is_bare = ":" in name and not name.startswith("[")  # an IPv6 address without its brackets
            url = httpx.URL(f"http://[{name}]" if is_bare else f"http://{name}")
        except (httpx.InvalidURL, UnicodeEncodeError) as exc:  # a lone surrogate is the second
            raise InvalidInputError(f"allowed host {text!r}: {exc}") from exc
        if url.path != "/" or url.userinfo or url.query or url.port or not _HOST.fullmatch(_host(url)):
            raise InvalidInputError(f"allowed host {text!r} is not a host; write it without scheme and path")
        return cls(name=host.removesuffix(name) + _host(url), port=port)

    @property
    def is_here(self) -> bool:
        """Whether it names this machine, by a loopback address or as ``localhost``."""
        try:
            return self.name == "localhost" or read_address(self.name).is_loopback
        except ValueError:
            return False

    def fits(self, url: httpx.URL) -> bool:
        """Whether it allows the host and port of *url*."""
        number = _port(url)
        port = number == _PORTS[url.scheme] if not self.port else self.port in {"*", str(number)}
        return port and fnmatchcase(_host(url), self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPolicy:
    """Where requests of user code, and of OpenAPI tools, may go; by default nowhere.

    Whatever is allowed here, an address that is not public is refused, in every spelling, behind every name
    and after every redirect.

    Raises:
        InvalidInputError: an entry or a limit is not valid.
    """

    allow: Sequence[str] = ()
    """Hosts: ``api.example.com``, ``*.example.com`` (not ``example.com`` itself), ``*`` for all public ones.
    With ``:8443`` on that port, with ``:*`` on any, else on 443 of https and 80 of http."""
    allow_loopback: bool = False
    """Whether allowed hosts may be on this machine, 127.0.0.0/8 and ::1: for tests and samples."""
    timeout_s: float = 10.0
    """For the whole of a request, with redirects and look-ups of names, of which a user has 4 at a time, and
    this process 64."""
    max_request_bytes: int = 2 * 1024 * 1024
    """Of a body."""
    max_response_bytes: int = 1024 * 1024
    """Of a body, before and after it is unpacked."""
    max_redirects: int = 5
    resolver: Resolver | None = None
    """By default the system's."""
    ssl_context: ssl.SSLContext | None = None
    """Which servers are trusted; by default those of the certifi package."""

    def __post_init__(self) -> None:
        given: Any = self.allow
        if isinstance(given, str) or not isinstance(given, Collection):
            raise InvalidInputError(f"allow must be a list of hosts, not {type(given).__name__}")
        object.__setattr__(self, "allow", tuple(given))  # what is checked now stays what it is
        require_members(self)
        self.allowed_hosts()
        positive = min(self.timeout_s, self.max_request_bytes, self.max_response_bytes) > 0
        if not (positive and self.timeout_s < math.inf) or self.max_redirects < 0:
            raise InvalidInputError("timeout_s and bytes must be positive, max_redirects at least 0")

    def allowed_hosts(self) -> list[AllowedHost]:
        """Return the entries of ``allow``."""
        return [AllowedHost.of(text) for text in self.allow]

    async def addresses(self, url: httpx.URL, asker: str) -> list[str]:
        """Return what to connect to for *url*: addresses that were checked, so no name is looked up again.

        *asker* is the user who asks.

        Raises:
            RefusedError: nothing there may be connected to.
            OSError, ValueError: the name cannot be looked up.
        """
        if url.scheme not in _PORTS or not url.host:
            raise RefusedError(f"{url.scheme or 'no scheme'}: only http and https URLs can be requested")
        host, port = _host(url), _port(url)
        if not any(entry.fits(url) for entry in self.allowed_hosts()):
            entry = host if port == _PORTS[url.scheme] else f"{host}:{port}"
            way_out = f"run with --allow-host {entry}, or name it in HttpPolicy.allow"
            raise RefusedError(f"{host}:{port} is not among the allowed hosts; {way_out}")
        if not 0 < port <= _LARGEST_PORT:
            raise RefusedError(f"{port} is not a port")
        found = await (self.resolver(host, port) if self.resolver else look_up(host, port, asker))
        if not found:
            raise RefusedError(f"{host} has no address")
        return [self._checked(text, host) for text in found]

    def _checked(self, text: str, host: str) -> str:
        address = read_address(text)
        if is_public(address) or (self.allow_loopback and address.is_loopback):
            return text
        hint = " (HttpPolicy.allow_loopback)" if address.is_loopback else ""
        raise RefusedError(f"{host} is {text}, which is not a public address{hint}")


def _host(url: httpx.URL) -> str:
    return url.raw_host.decode("ascii").lower().removesuffix(".")


def _port(url: httpx.URL) -> int:
    return _PORTS[url.scheme] if url.port is None else url.port
