"""Requests of user code are sent as they are spelt, with their headers; answers come back in bounds."""

import socket
import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces import HttpPolicy, OpenApiTool
from gcp_adk_store.ces.http.fetching import Fetched, HttpAccess, Outgoing
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.web import Web, serving
from tests.support.certificates import certified

HERE = HttpPolicy(allow=["127.0.0.1:*", "localhost:*"], allow_loopback=True, timeout_s=5)


async def fetched(method: str, url: str, *, policy: HttpPolicy = HERE, **more: Any) -> Fetched:
    """Return what a request comes to."""
    return await HttpAccess(policy).fetch(Outgoing(method=method, url=url, **more))


@pytest.mark.parametrize("method", ["DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT"])
async def test_every_method_arrives(method: str, web: Web) -> None:
    """And its answer comes back."""
    found = await fetched(method, f"{web.url}/a?b=c")

    assert (found.status_code, found.reason, found.said) == (200, "", ())
    assert found.text == f'{{"method": "{method}", "path": "/a", "query": [["b", "c"]]}}'


async def test_head_has_no_text_and_follows_nothing(web: Web) -> None:
    """As in the package requests."""
    found = await fetched("HEAD", f"{web.url}/redirect?to=/a")

    assert (found.status_code, found.text) == (302, "")


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "GET\r\nX: y", ""])
async def test_other_methods_are_no_request(method: str, web: Web) -> None:
    """They could ask a proxy for something else."""
    before = len(web.asked)

    found = await fetched(method, web.url)

    assert (found.status_code, len(web.asked)) == (0, before)


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


@pytest.mark.parametrize(
    "given",
    [
        {"headers": ["a"]},
        {"params": 3},
        {"params": ["abc"]},
        {"data": 3},
        {"data": ["a"]},
    ],
)
async def test_what_is_no_request_is_no_answer(given: dict[str, Any], web: Web) -> None:
    """Of the status 0, with the reason for its author."""
    before = len(web.asked)

    found = await fetched("POST", web.url, **given)

    assert (found.status_code, found.reason, found.text) == (0, "Error fetching from URL", "")
    assert found.said
    assert len(web.asked) == before


@pytest.mark.parametrize(
    "url",
    [
        *("", "nothing", "/path", "http://", "http://[", "ftp://a", "http://\x00"),
        *("http://127.0.0.1:0", "http://127.0.0.1:-1", "http://127.0.0.1:65536", "http://127.0.0.1:1e3"),
    ],
)
async def test_what_is_no_url_is_no_answer(url: str) -> None:
    """Nor an exception."""
    assert (await fetched("GET", url)).status_code == 0


async def test_an_error_has_its_reason_and_its_text(web: Web) -> None:
    """A success has no reason."""
    found = await fetched("GET", f"{web.url}/status?code=404")

    assert (found.status_code, found.reason, found.text) == (404, "Not Found", "said")


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
    """Another name of the same server is another origin."""
    headers = {"Authorization": "mine", "Cookie": "a=b", "X-Other": "stays"}

    await fetched("GET", f"{web.url}/redirect?to=http://localhost:{web.port}/there", headers=headers)

    assert web.last.path == "/there"
    assert "authorization" not in web.last.headers
    assert "cookie" not in web.last.headers
    assert web.last.headers["x-other"] == "stays"


async def test_requests_of_tools_stay_in_their_origin(web: Web) -> None:
    """Their headers are not the code's to send elsewhere."""
    url = f"{web.url}/redirect?to=http://localhost:{web.port}/there"

    found = await fetched("GET", url, leaves_origin=False)

    assert (found.status_code, found.text, web.last.path) == (302, "elsewhere", "/redirect")
    assert f"127.0.0.1 redirects to http://localhost:{web.port}, which must not get" in found.said[0]
    assert (await fetched("GET", f"{web.url}/redirect?to=/here", leaves_origin=False)).status_code == 200


async def test_redirects_in_a_circle_end(web: Web) -> None:
    """At the policy's number of them."""
    policy = HttpPolicy(allow=["127.0.0.1:*"], allow_loopback=True, max_redirects=2)
    before = len(web.asked)

    found = await fetched("GET", f"{web.url}/redirect?to=/redirect%3Fto%3D/status%3Fcode=200", policy=policy)
    assert found.status_code == 200

    found = await fetched("GET", f"{web.url}/redirect?to=", policy=policy)
    assert found.status_code == 0
    assert len(web.asked) == before + 6


async def test_credentials_of_a_url_are_the_codes_own(web: Web) -> None:
    """They are sent, as the package requests does; others there are none."""
    await fetched("GET", f"http://a:b@127.0.0.1:{web.port}/")
    assert web.last.headers["authorization"] == "Basic YTpi"

    await fetched("GET", web.url)
    assert set(web.last.headers) == {"accept", "accept-encoding", "host", "user-agent"} | (
        {"connection"} & set(web.last.headers)
    )


async def test_cookies_are_not_kept(web: Web) -> None:
    """One session's would be another's."""
    access = HttpAccess(HERE)
    await access.fetch(Outgoing(method="GET", url=f"{web.url}/cookie"))
    await access.fetch(Outgoing(method="GET", url=web.url))

    assert "cookie" not in web.last.headers


async def test_no_proxy_of_the_environment_is_asked(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would resolve names itself."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert (await fetched("GET", web.url)).status_code == 200


@pytest.mark.parametrize("path", ["large", "packed"])
async def test_an_answer_has_a_largest_size(path: str, web: Web) -> None:
    """Counted as code would get it."""
    policy = HttpPolicy(allow=["127.0.0.1:*"], allow_loopback=True, max_response_bytes=1000)

    found = await fetched("GET", f"{web.url}/{path}?bytes=1000", policy=policy)
    assert found.text == "x" * 1000

    found = await fetched("GET", f"{web.url}/{path}?bytes=1001", policy=policy)
    assert found.status_code == 0
    assert "max_response_bytes" in found.said[-1]


async def test_what_was_packed_in_parts_is_unpacked_to_its_end(web: Web) -> None:
    """And an end that is missing is reported, not taken for one."""
    parts = await fetched("GET", f"{web.url}/packed?bytes=10&times=3")
    assert parts.text == "x" * 30

    cut = await fetched("GET", f"{web.url}/packed?bytes=10&cut=1")
    assert (cut.status_code, "ends before" in cut.said[-1]) == (0, True)
    assert (await fetched("HEAD", f"{web.url}/packed?bytes=10")).status_code == 200


async def test_an_answer_that_nobody_can_unpack_is_reported(web: Web) -> None:
    """Nobody asked for it."""
    found = await fetched("GET", f"{web.url}/brotli")

    assert (found.status_code, "packed" in found.said[-1]) == (0, True)


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
    policy = HttpPolicy(allow=["127.0.0.1:*"], allow_loopback=True, timeout_s=0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = await fetched("GET", f"http://127.0.0.1:{server.getsockname()[1]}/", policy=policy)

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


@pytest.mark.parametrize(("name", "status_code"), [("api.test", 200), ("other.test", 0)])
async def test_a_certificate_is_checked_against_the_name_that_was_asked_for(
    name: str, status_code: int, secure: tuple[int, Path]
) -> None:
    """Though an address is connected to."""
    port, certificate = secure

    async def here(asked: str, on: int) -> Sequence[str]:
        assert (asked, on) == (name, port)
        return ["127.0.0.1"]

    policy = HttpPolicy(
        allow=["*.test:*"],
        allow_loopback=True,
        resolver=here,
        ssl_context=ssl.create_default_context(cafile=str(certificate)),
    )
    found = await fetched("GET", f"https://{name}:{port}/", policy=policy)

    assert found.status_code == status_code


async def test_a_server_that_nobody_vouches_for_is_not_asked(secure: tuple[int, Path]) -> None:
    """By default, certificates are checked."""

    async def here(asked: str, on: int) -> Sequence[str]:
        assert asked
        assert on
        return ["127.0.0.1"]

    policy = HttpPolicy(allow=["*.test:*"], allow_loopback=True, resolver=here)
    found = await fetched("GET", f"https://api.test:{secure[0]}/", policy=policy)

    assert found.status_code == 0
    assert "CERTIFICATE_VERIFY_FAILED" in found.said[-1]


async def test_headers_that_say_how_a_request_travels_are_the_hosts(web: Web) -> None:
    """What is left out is reported."""
    headers = {
        "X-Key": "k",
        "Host": "inside.test",
        "Content-Length": "9",
        "Transfer-Encoding": "chunked",
        "N": 1,
    }

    found = await fetched("POST", web.url, headers=headers, data="abc")

    assert found.status_code == 200
    assert web.last.headers["host"] == f"127.0.0.1:{web.port}"
    assert (web.last.headers["x-key"], web.last.headers["n"], web.last.body) == ("k", "1", "abc")
    assert [said.split()[2] for said in found.said] == ["Host", "Content-Length", "Transfer-Encoding"]


async def test_of_one_name_the_last_is_sent(web: Web) -> None:
    """In whatever case it is written: a tool's own must not be one of two."""
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
