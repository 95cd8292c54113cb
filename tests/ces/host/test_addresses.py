"""User code reaches public addresses, and no others; its requests are sent as they are spelt, in bounds."""

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from gcp_adk_store.ces import HttpPolicy, OpenApiTool, RuntimeSettings
from gcp_adk_store.ces.host.invocation import Invocation
from gcp_adk_store.ces.http.fetching import Fetched, HttpAccess, Outgoing
from gcp_adk_store.ces.http.policy import AllowedHost, is_public, read_address
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.web import Web, serving
from tests.support.certificates import certified
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

    found = await fetched("GET", f"http://{host}:{web.port}/", policy=HttpPolicy(allow=["*:*"]))

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
            assert_refused(
                await fetched("GET", "http://inside.test/", policy=policy), "is not a public address"
            )


async def test_a_name_is_looked_up_once_and_connected_to_as_it_was_checked(web: Web) -> None:
    """A second answer, which is another address, is never asked for."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])
    asked = []

    async def rebinding(name: str, port: int) -> Sequence[str]:
        asked.append((name, port))
        return next(answers)

    policy = HttpPolicy(allow=["*:*"], allow_loopback=True, resolver=rebinding)
    found = await fetched("GET", f"http://rebinding.test:{web.port}/here", policy=policy)

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

        policy = HttpPolicy(allow=allow, allow_loopback=True)
        assert_refused(await fetched("GET", str(url), policy=policy), why)


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
                *("u@a.test", "a b", "a.test/\udcff"),
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
    found = await fetched("GET", "https://example.com/", policy=HttpPolicy(resolver=resolve))
    assert_refused(found, "HttpPolicy.allow")
    assert asked == []


HERE = HttpPolicy(allow=["127.0.0.1:*", "localhost:*"], allow_loopback=True, timeout_s=60)


async def fetched(method: str, url: str, *, policy: HttpPolicy = HERE, **more: Any) -> Fetched:
    """Return what a request comes to."""
    return await HttpAccess(policy).fetch(Outgoing(method=method, url=url, **more))


async def test_every_method_arrives(web: Web) -> None:
    """And its answer comes back; HEAD's has no text and follows nothing, as in the package requests.

    Others are no request: they could ask a proxy for something else.
    """
    for method in ("DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT"):
        found = await fetched(method, f"{web.url}/a?b=c")
        assert (found.status_code, found.reason, found.said) == (200, "", ())
        assert found.text == f'{{"method": "{method}", "path": "/a", "query": [["b", "c"]]}}'
    head = await fetched("HEAD", f"{web.url}/redirect?to=/a")
    assert (head.status_code, head.text) == (302, "")
    before = len(web.asked)
    for method in ("CONNECT", "TRACE", "GET\r\nX: y", ""):
        assert (await fetched(method, web.url)).status_code == 0
    assert len(web.asked) == before


@pytest.mark.parametrize(
    ("params", "query"),
    [
        ({"a": 1, "b": "x y", "none": None}, [("q", "0"), ("a", "1"), ("b", "x y")]),
        ({"a": [1, 2]}, [("q", "0"), ("a", "1"), ("a", "2")]),
        ([["a", "1"], ["a", "2"]], [("q", "0"), ("a", "1"), ("a", "2")]),
        ("a=1&b=2", [("q", "0"), ("a", "1"), ("b", "2")]),
        ({"q": "1"}, [("q", "0"), ("q", "1")]),
        (None, [("q", "0")]),
    ],
)
async def test_params_follow_the_query(params: Any, query: list[tuple[str, str]], web: Web) -> None:
    """Nothing of the URL is lost."""
    await fetched("GET", f"{web.url}/?q=0", params=params)

    assert web.last.query == query


@pytest.mark.parametrize(
    ("given", "body", "content_type"),
    [
        ({"data": "é"}, "é", None),
        ({"data": {"a": "x y", "b": ["1", "2"]}}, "a=x+y&b=1&b=2", "application/x-www-form-urlencoded"),
        (
            {"data": {"a": {"b": 1}, "c": [{"d": True}]}},
            "a=%7B%22b%22%3A1%7D&c=%7B%22d%22%3Atrue%7D",
            "application/x-www-form-urlencoded",
        ),
        ({"json": {"a": [1, None]}}, '{"a":[1,null]}', "application/json"),
        ({"json": [1], "data": "text"}, "text", None),
        ({}, "", None),
    ],
)
async def test_bodies_are_text_forms_or_json(
    given: dict[str, Any], body: str, content_type: str | None, web: Web
) -> None:
    """With the type that is theirs."""
    await fetched("POST", web.url, **given)

    assert (web.last.body, web.last.headers.get("content-type")) == (body, content_type)


async def test_what_is_no_request_is_no_answer(web: Web) -> None:
    """Of the status 0, with the reason for its author, and no exception."""
    before = len(web.asked)
    wrong: tuple[dict[str, Any], ...] = (
        {"headers": ["a"]},
        {"params": 3},
        {"params": ["abc"]},
        {"data": 3},
        {"data": ["a"]},
    )
    hosts = ("0", "-1", "65536", "1e3")
    urls = ("", "nothing", "/path", "http://", "http://[", "ftp://a", "http://\x00")

    for given in wrong:
        found = await fetched("POST", web.url, **given)
        assert (found.status_code, found.reason, found.text) == (0, "Error fetching from URL", "")
        assert found.said
    for url in (*urls, *(f"http://127.0.0.1:{port}" for port in hosts)):
        assert (await fetched("GET", url)).status_code == 0
    assert len(web.asked) == before


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        *((301, "POST", "GET"), (301, "PUT", "PUT"), (301, "DELETE", "DELETE"), (302, "POST", "GET")),
        *((302, "DELETE", "GET"), (303, "PUT", "GET"), (307, "POST", "POST"), (308, "PATCH", "PATCH")),
    ],
)
async def test_a_redirect_is_followed(status: int, method: str, then: str, web: Web) -> None:
    """As in the package requests: with what was sent, where its method stays."""
    found = await fetched(
        method,
        f"{web.url}/redirect?status={status}&to=/there",
        data="abc",
        headers={"Authorization": "mine"},
    )

    assert found.status_code == 200
    assert (web.last.method, web.last.path) == (then, "/there")
    assert web.last.body == ("abc" if then == method else "")
    assert web.last.headers["authorization"] == "mine"


async def test_secrets_stay_with_their_origin(web: Web) -> None:
    """Another name of the same server is another one. Requests of tools stay in theirs."""
    headers = {"Authorization": "mine", "Cookie": "a=b", "X-Other": "stays"}
    elsewhere = f"{web.url}/redirect?to=http://localhost:{web.port}/there"

    await fetched("GET", elsewhere, headers=headers)
    assert (web.last.path, web.last.headers["x-other"]) == ("/there", "stays")
    assert {"authorization", "cookie"}.isdisjoint(web.last.headers)

    found = await fetched("GET", elsewhere, leaves_origin=False)
    assert (found.status_code, found.text, web.last.path) == (302, "elsewhere", "/redirect")
    assert f"127.0.0.1 redirects to http://localhost:{web.port}, which must not get" in found.said[0]
    assert (await fetched("GET", f"{web.url}/redirect?to=/here", leaves_origin=False)).status_code == 200


async def test_redirects_in_a_circle_end(web: Web) -> None:
    """At the policy's number of them."""
    policy = replace(HERE, max_redirects=2)
    before = len(web.asked)

    found = await fetched("GET", f"{web.url}/redirect?to=/redirect%3Fto%3D/status%3Fcode=200", policy=policy)
    endless = await fetched("GET", f"{web.url}/redirect?to=", policy=policy)
    assert (found.status_code, endless.status_code, len(web.asked)) == (200, 0, before + 6)


async def test_nothing_is_sent_that_the_code_does_not_give(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of a URL are, as in the package requests; cookies are not kept, and no proxy is asked.

    One session's cookies would be another's, and a proxy of the environment would resolve names itself.
    """
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    access = HttpAccess(HERE)
    await access.fetch(Outgoing(method="GET", url=f"http://a:b@127.0.0.1:{web.port}/cookie"))
    assert web.last.headers["authorization"] == "Basic YTpi"

    await access.fetch(Outgoing(method="GET", url=web.url))
    assert set(web.last.headers) - {"connection"} == {"accept", "accept-encoding", "host", "user-agent"}


@pytest.mark.parametrize("path", ["large", "packed"])
async def test_an_answer_has_a_largest_size(path: str, web: Web) -> None:
    """Counted as code would get it."""
    policy = replace(HERE, max_response_bytes=1000)

    found = await fetched("GET", f"{web.url}/{path}?bytes=1000", policy=policy)
    larger = await fetched("GET", f"{web.url}/{path}?bytes=1001", policy=policy)
    assert (found.text, larger.status_code) == ("x" * 1000, 0)
    assert "max_response_bytes" in larger.said[-1]


async def test_what_was_packed_in_parts_is_unpacked_to_its_end(web: Web) -> None:
    """An end that is missing is reported, not taken for one, and what nobody asked for or can unpack."""
    parts = await fetched("GET", f"{web.url}/packed?bytes=10&times=3")
    assert parts.text == "x" * 30

    for path, says in (("packed?bytes=10&cut=1", "ends before"), ("brotli", "packed")):
        cut = await fetched("GET", f"{web.url}/{path}")
        assert (cut.status_code, says in cut.said[-1]) == (0, True)
    assert (await fetched("HEAD", f"{web.url}/packed?bytes=10")).status_code == 200


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("utf-8", "c3a9", "é"),
        ("iso-8859-1", "e9", "é"),
        ("windows-1252", "80", "€"),
        ("shift_jis", "82a0", "あ"),
        ("utf-8", "ff", "\ufffd"),
        ("zlib", "41", "A"),
        ("nonsense", "41", "A"),
        ("idna", "41", "A"),
    ],
)
async def test_text_is_decoded_as_its_type_says(charset: str, data: str, text: str, web: Web) -> None:
    """Or as UTF-8, where that is no charset."""
    assert (await fetched("GET", f"{web.url}/charset?is={charset}&hex={data}")).text == text


async def test_an_answer_that_never_comes_is_given_up() -> None:
    """At the policy's time; a server that accepts and says nothing is one of those."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        found = await fetched("GET", url, policy=replace(HERE, timeout_s=0.2))

    assert found.status_code == 0
    assert "timeout_s" in found.said[-1] or "ReadTimeout" in found.said[-1]


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """A server of HTTPS that is ``api.test``, and the file of its authority's certificate."""
    folder = tmp_path_factory.mktemp("tls")
    key, certificate = certified(folder / "trusted.pem", ["api.test"])
    (folder / "server.pem").write_bytes(key + certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    with serving(context) as web:
        yield web.port, folder / "trusted.pem"


@pytest.mark.parametrize(
    ("name", "is_trusted", "status_code"),
    [("api.test", True, 200), ("other.test", True, 0), ("api.test", False, 0)],
)
async def test_a_certificate_is_checked_against_the_name_that_was_asked_for(
    name: str, status_code: int, secure: tuple[int, Path], *, is_trusted: bool
) -> None:
    """Though an address is connected to; by default, nobody vouches for the server."""
    port, certificate = secure

    async def here(asked: str, on: int) -> Sequence[str]:
        assert (asked, on) == (name, port)
        return ["127.0.0.1"]

    policy = HttpPolicy(
        allow=["*.test:*"],
        allow_loopback=True,
        resolver=here,
        ssl_context=ssl.create_default_context(cafile=str(certificate)) if is_trusted else None,
    )
    found = await fetched("GET", f"https://{name}:{port}/", policy=policy)

    assert found.status_code == status_code
    assert is_trusted or "CERTIFICATE_VERIFY_FAILED" in found.said[-1]


async def test_headers_that_say_how_a_request_travels_are_the_hosts(web: Web) -> None:
    """What is left out is reported. Of one name the last is sent: a tool's own must not be one of two."""
    travel = {"Host": "inside.test", "Content-Length": "9", "Transfer-Encoding": "chunked"}
    found = await fetched("POST", web.url, headers={"X-Key": "k", **travel, "N": 1}, data="abc")

    assert found.status_code == 200
    assert web.last.headers["host"] == f"127.0.0.1:{web.port}"
    assert (web.last.headers["x-key"], web.last.headers["n"], web.last.body) == ("k", "1", "abc")
    assert [said.split()[2] for said in found.said] == [*travel]
    await fetched("POST", web.url, headers={"x-key": "code", "X-Key": "tool", "CONTENT-TYPE": "a/b"}, json=1)
    assert (web.last.headers["x-key"], web.last.headers["content-type"]) == ("tool", "a/b")


@pytest.mark.parametrize(
    "headers",
    [
        *(
            {"a": value}
            for value in ("hush\r\nc: d", "hush\n", " hush", "hush ", "hush\0", "hush é", "hush\x7f")
        ),
        *({name: "hush"} for name in ("a\n", "", "a b", "Host ", "a:", "é")),
    ],
)
async def test_what_is_no_header_is_not_sent(headers: dict[str, str], web: Web) -> None:
    """Its author gets the name alone: the value may be a secret, of a tool that code may not see."""
    before = len(web.asked)

    found = await fetched("GET", web.url, headers=headers)

    assert (found.status_code, len(web.asked)) == (0, before)
    assert "header" in found.said[-1]
    assert "hush" not in found.said[-1]
    with pytest.raises(InvalidInputError, match="header") as refused:
        OpenApiTool(display_name="Bank", operations={}, headers=headers)
    assert "hush" not in str(refused.value)
