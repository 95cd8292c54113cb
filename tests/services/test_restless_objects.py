"""Loops over objects end, whatever other writers do and however little a server gets done."""

import asyncio
import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import requests
import urllib3
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession
from google.cloud.storage import Client

from gcp_adk_store import UnavailableError
from tests.support.clock import PassingTime
from tests.support.stored import plain_text
from tests.support.stores import bucket_objects

BORN = datetime(2030, 1, 1, tzinfo=UTC)
LATER = datetime(2031, 1, 1, tzinfo=UTC)
PIECES = 7


def over(bucket: str, http: requests.Session) -> Any:
    """Return the objects of *bucket*, for a client with the session *http*."""
    client = Client(project="demo", credentials=AnonymousCredentials(), _http=http)
    return bucket_objects(bucket, client)


class Outrun(AuthorizedSession):
    """Lets another writer change an object just before each of its patches arrives, in some time."""

    def __init__(self, passing: PassingTime) -> None:
        super().__init__(AnonymousCredentials())  # type: ignore[no-untyped-call]  # google-auth types half
        self._passing = passing

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # any arguments of the client
        """Send the other writer's patch, then this one."""
        if method == "PATCH":
            self._passing.for_library(70)  # of the 120 seconds that there are
            super().request(method, url.partition("?")[0], json={"metadata": {}}, timeout=60)  # type: ignore[no-untyped-call]  # google-auth types half
        return super().request(method, url, *args, **kwargs)  # type: ignore[no-untyped-call]  # google-auth types half


class Rewrites(AuthorizedSession):
    """Answers rewrites by itself, each with what *done* returns for its number; sends one that gets None."""

    def __init__(self, done: Callable[[int], int | None]) -> None:
        super().__init__(AnonymousCredentials())  # type: ignore[no-untyped-call]  # google-auth types half
        self._done = done
        self.number = 0

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]  # as above
        """Answer a rewrite, or send the request."""
        if "/rewriteTo/" not in url:
            return super().request(method, url, *args, **kwargs)  # type: ignore[no-untyped-call]  # google-auth types half
        self.number += 1
        done = self._done(self.number)
        if done is None:
            return super().request(method, url.partition("?")[0] + "?ifGenerationMatch=0", *args, **kwargs)  # type: ignore[no-untyped-call]  # google-auth types half
        unfinished = {"done": False, "rewriteToken": "t", "totalBytesRewritten": f"{done}", "objectSize": "9"}
        answer = requests.Response()
        answer.status_code = 200
        answer.raw = urllib3.HTTPResponse(io.BytesIO(json.dumps(unfinished).encode()), preload_content=False)
        return answer


async def test_a_custom_time_that_others_keep_from_moving_ends_as_unavailable(
    adk_store_bucket: str, passing: PassingTime
) -> None:
    """Every patch finds an object that another writer has just changed."""
    objects = over(adk_store_bucket, Outrun(passing))
    await objects.create("folder/part", plain_text(b"x", custom_time=BORN))
    async with asyncio.timeout(60):
        with pytest.raises(UnavailableError, match="other writers were first on every try; try again later"):
            await objects.keep_until("folder/", LATER)
    await objects.close()


async def test_a_copy_that_gets_nowhere_ends_as_unavailable(adk_store_bucket: str) -> None:
    """Five requests in a row that copy no byte are enough."""
    http = Rewrites(lambda _: 3)
    objects = over(adk_store_bucket, http)
    upload = plain_text(b"a payload")
    await objects.create("source", upload)
    source = await objects.info("source")
    assert source is not None
    async with asyncio.timeout(60):
        with pytest.raises(UnavailableError, match="made no progress with the copy; try again later"):
            await objects.copy(source, "copy", upload)

    assert 6 == http.number
    assert None is await objects.info("copy")
    await objects.close()


async def test_a_copy_takes_as_many_requests_as_it_gets_further_by(adk_store_bucket: str) -> None:
    """Each continues the one before; the last one finishes the object."""
    http = Rewrites(lambda number: number if number < PIECES else None)
    objects = over(adk_store_bucket, http)
    upload = plain_text(b"a payload")
    await objects.create("source", upload)
    source = await objects.info("source")
    assert source is not None
    await objects.copy(source, "copy", upload)

    assert PIECES == http.number
    assert (b"a payload") == (await objects.read("copy", generation=None) or (b"", 0))[0]
    await objects.close()
