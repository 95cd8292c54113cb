"""Requests of user code are sent as they are spelt, with their headers; answers come back in bounds."""

import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces import HttpPolicy, OpenApiTool
from gcp_adk_store.ces.http.fetching import Fetched, HttpAccess, Outgoing
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.web import Web, serving
from tests.support.certificates import certified

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
