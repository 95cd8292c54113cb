"""Headers of code are sent where they are headers, and not the host's."""

import pytest

from gcp_adk_store.ces import OpenApiTool
from gcp_adk_store.errors import InvalidInputError
from tests.ces.host.test_fetching import fetched
from tests.ces.host.web import Web


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
