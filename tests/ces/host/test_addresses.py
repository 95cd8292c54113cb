"""User code reaches public addresses, and those of this machine where that is allowed; no others."""

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from gcp_adk_store.ces import HttpPolicy, RuntimeSettings
from gcp_adk_store.ces.host.invocation import Invocation
from gcp_adk_store.ces.http.fetching import Fetched, HttpAccess, Outgoing
from gcp_adk_store.ces.http.policy import AllowedHost, is_public, read_address
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.web import Web
from tests.support.clock import PassingTime

SPECIAL = [
    *("0.0.0.0", "127.0.0.1", "127.8.9.10", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "169.254.0.1", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1"),
    *("168.63.129.16", "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.250", "240.0.0.1"),
    *("255.255.255.255", "::", "::1", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001:db8::1"),
    *("2002:7f00:1::1", "2001::1", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:a00:1"),
    *("::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "fec0::1"),
    "3fff::1",
]
PUBLIC = [
    *("8.8.8.8", "142.250.1.1", "172.32.0.1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "64:ff9b::808:808"),
]


def test_the_internets_addresses_are_public() -> None:
    """Those next to special ones too. Only addresses of a link have zones."""
    assert all(is_public(read_address(text)) for text in PUBLIC)
    with pytest.raises(ValueError, match="zone"):
        read_address("fe80::1%eth0")


def test_this_machine_is_reached_only_where_it_is_named() -> None:
    """Whatever its name resolves to."""
    here = ("127.0.0.1", "127.1.2.3:8791", "localhost:*", "localhost", "[::1]:8080", "::1")
    elsewhere = ("api.example.com:443", "10.0.0.1", "*", "*.localhost.example.com")

    assert [True] * len(here) == [AllowedHost.of(host).is_here for host in here]
    assert not any(AllowedHost.of(host).is_here for host in elsewhere)


async def fetched(url: str, policy: HttpPolicy) -> Fetched:
    """Return what a GET of *url* comes to."""
    return await HttpAccess(policy).fetch(Outgoing(method="GET", url=url))


def assert_refused(found: Fetched, why: str) -> None:
    """Check that code sees what it sees of any failure, and its author why."""
    assert (found.status_code, found.reason, found.text) == (0, "Error fetching from URL", "")
    assert why in found.said[-1]


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "localhost.", "LOCALHOST", "[::1]", "[::ffff:127.0.0.1]"),
        *("0.0.0.0", "0", "2130706433", "0x7f000001", "017700000001", "127.1", "0177.0.0.1", "0x7f.0.0.1"),
        *("10.255.255.255", "192.168.0.1", "169.254.169.254", "2852039166", "0xA9FEA9FE", "[fd00:ec2::254]"),
        *("[64:ff9b::a9fe:a9fe]", "[::]", "[::ffff:7f00:1]"),
    ],
)
async def test_no_encoding_of_a_special_address_is_connected_to(host: str, web: Web) -> None:
    """Though every host is allowed, and a server listens."""
    before = len(web.asked)

    found = await fetched(f"http://{host}:{web.port}/", HttpPolicy(allow=["*:*"]))

    assert_refused(found, "Invalid IPv4 address" if host == "0177.0.0.1" else "is not a public address")
    assert len(web.asked) == before


@pytest.mark.parametrize("before", [[], ["8.8.8.8"]])
async def test_a_name_of_a_special_address_is_refused(before: list[str]) -> None:
    """Whatever name somebody gave it, and whichever answer is tried first; loopback allows nothing else."""
    for address in SPECIAL:

        async def resolve(name: str, port: int, address: str = address) -> Sequence[str]:
            assert (name, port) == ("inside.test", 80)
            return [*before, address]

        for allow_loopback in {False, not read_address(address).is_loopback}:
            policy = HttpPolicy(allow=["*:*"], resolver=resolve, allow_loopback=allow_loopback)
            assert_refused(await fetched("http://inside.test/", policy), "is not a public address")


async def test_a_name_is_looked_up_once_and_connected_to_as_it_was_checked(web: Web) -> None:
    """A second answer, which is another address, is never asked for."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    asked = []

    async def rebinding(name: str, port: int) -> Sequence[str]:
        asked.append((name, port))
        return next(answers)

    policy = HttpPolicy(allow=["*:*"], allow_loopback=True, resolver=rebinding)
    found = await fetched(f"http://rebinding.test:{web.port}/here", policy)

    assert found.status_code == 200
    assert asked == [("rebinding.test", web.port)]
    assert web.last.headers["host"] == f"rebinding.test:{web.port}"


async def test_slow_names_of_one_user_keep_no_other_waiting(
    web: Web, monkeypatch: pytest.MonkeyPatch, passing: PassingTime
) -> None:
    """Though each goes on when its request was given up, and others of the user wait for its end.

    This process has other work for its threads, too.
    """
    answered = threading.Event()
    look_up = socket.getaddrinfo

    def slow(host: str, *more: Any, **given: Any) -> Any:
        if host.endswith(".test"):
            answered.wait()
            return []
        return look_up(host, *more, **given)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    policy = HttpPolicy(allow=["*:*"], allow_loopback=True, timeout_s=600)
    access = HttpAccess(policy)

    async def ask(asker: str, url: str) -> Fetched:
        return await access.fetch(Outgoing(method="GET", url=url), asker=asker)

    try:
        asking = asyncio.gather(*(ask("hostile", f"http://n{n}.test/") for n in range(200)))
        while not asking.done():
            passing.after(policy.timeout_s)
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            assert (await ask("honest", f"http://localhost:{web.port}/")).status_code == 200
            assert await asyncio.to_thread(lambda: 1) == 1
    finally:
        answered.set()
    for found in await asking:
        assert_refused(found, "timeout_s")
    assert_refused(await ask("honest", "http://late.test/"), "has no address")


def test_look_ups_are_shared_among_users() -> None:
    """All sessions of one user have one share, and a session of the same id of another user has another."""
    keys = ["shop/ada/s1", "shop/ada/s2", "shop/bob/s1", "bank/ada/s1"]
    askers = [Invocation.of("call_tool ask", key, RuntimeSettings(), {}).asker for key in keys]

    assert askers[0] == askers[1]
    assert 3 == len({*askers})


FORK = """
import asyncio, os
from gcp_adk_store.ces.http.policy import look_up
asyncio.run(look_up("127.0.0.1", 80, "s1"))
child = os.fork()
if child == 0:
    print(asyncio.run(asyncio.wait_for(look_up("127.0.0.1", 80, "s1"), 60)), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_fork_of_the_host_looks_names_up_too() -> None:
    """It has none of the threads that its parent did that with."""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, check=True)
    assert run.stdout == b"['127.0.0.1']\n"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_checked_again(status: int, web: Web) -> None:
    """Its address, its host and its scheme, whatever allowed host it comes from."""
    inside = ("//10.0.0.1/", "//169.254.169.254/computeMetadata/v1/", "//192.168.0.1/", "//0x0a000001/")
    schemes = ("file:///etc/passwd", "ftp://127.0.0.1/", "data:text/plain,x", "gopher://x/")
    here = (f"http://localhost:{web.port}/", f"localhost:{web.port} is not among the allowed hosts")
    refused = [(f"http:{each}", "is not a public address") for each in inside]
    refused += [("//192.168.0.1/", "is not a public address"), *((url, "") for url in schemes), here]
    for target, why in refused:
        allow = ["127.0.0.1:*"] if "localhost" in target else ["*:*"]
        url = httpx.URL(f"{web.url}/redirect", params={"to": target, "status": str(status)})

        assert_refused(await fetched(str(url), HttpPolicy(allow=allow, allow_loopback=True)), why)


@pytest.mark.parametrize(
    ("entry", "url", "allowed"),
    [
        ("api.example.com", "https://api.example.com/a", True),
        ("api.example.com", "http://API.example.com./a", True),
        ("api.example.com", "https://api.example.com:8443/a", False),
        ("api.example.com", "https://api.example.com.evil.test/", False),
        ("api.example.com", "https://api.example.com@evil.test/", False),
        ("api.example.com", "https://evil.test/?api.example.com", False),
        ("api.example.com:8443", "https://api.example.com:8443/", True),
        ("api.example.com:8443", "https://api.example.com/", False),
        ("api.example.com:443", "https://api.example.com/", True),
        ("api.example.com:*", "http://api.example.com:81/", True),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("*.example.com", "https://badexample.com/", False),
        ("*", "https://anything.test/", True),
        ("*", "https://anything.test:8443/", False),
        ("*:*", "https://anything.test:8443/", True),
        ("bücher.example", "https://xn--bcher-kva.example/", True),
        ("[::1]:8080", "http://[::1]:8080/", True),
        ("::1", "http://[::1]/", True),
    ],
)
def test_an_entry_allows_its_host_and_port(entry: str, url: str, *, allowed: bool) -> None:
    """Compared as hosts, never as text."""
    (host,) = HttpPolicy(allow=[entry]).allowed_hosts()

    assert host.fits(httpx.URL(url)) is allowed


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        *(
            ({"allow": [entry]}, None)
            for entry in (
                *("", "https://a.test", "a.test/path", "a*.test", "*.*.test", "a.test:0", "a.test:x"),
                *("u@a.test", "a b"),
            )
        ),
        # A text would be true, and allow this machine.
        ({"allow": "a.test"}, "allow must be"),
    ],
)
def test_what_is_no_policy_is_refused_before_anything_runs(wrong: dict[str, Any], says: str | None) -> None:
    """A list that is misspelt must not allow something else."""
    with pytest.raises(InvalidInputError, match=says):
        HttpPolicy(**wrong)


async def test_a_policy_stays_as_it_was_checked() -> None:
    """Whatever becomes of the list that it was made of; without one no host is allowed, no name looked up."""
    given = ["a.test"]
    policy = HttpPolicy(allow=given)
    given.append("not a host")
    asked: list[str] = []

    async def resolve(name: str, port: int) -> Sequence[str]:
        asked.append(f"{name}:{port}")
        return ["8.8.8.8"]

    assert [entry.name for entry in policy.allowed_hosts()] == ["a.test"]
    assert_refused(await fetched("https://example.com/", HttpPolicy(resolver=resolve)), "HttpPolicy.allow")
    assert asked == []
