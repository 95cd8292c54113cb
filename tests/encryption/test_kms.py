"""Google's own client of Cloud KMS wraps data keys, against a server that speaks its protocol."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from gcp_adk_store import (
    AccessDeniedError,
    KmsEnvelope,
    NotProvisionedError,
    RotationReport,
    Store,
    StoredDataError,
    UnavailableError,
)
from gcp_adk_store.testing.conformance.running import read
from tests.support.kms import Kms, served, wrapper_of, wrapper_over

RING = "projects/p/locations/l/keyRings/r/cryptoKeys"
KEY, OTHER = f"{RING}/k", f"{RING}/other"
THERE: Any = {"app_name": "app", "user_id": "user", "session_id": "s"}


@pytest.fixture(scope="module")
def serving() -> Iterator[tuple[Kms, Any]]:
    """A server and its client."""
    kms = Kms()
    with served(kms) as client:
        yield kms, client


@pytest.fixture
def kms(serving: tuple[Kms, Any]) -> Kms:
    """The server with two keys."""
    kms, _ = serving
    kms.__init__()  # type: ignore[misc]  # as new
    kms.add_version(KEY)
    kms.add_version(OTHER)
    return kms


@pytest.fixture
def wrapper(kms: Kms, serving: tuple[Kms, Any]) -> Any:
    """The wrapper of a key."""
    assert kms.keys
    return wrapper_over(serving[1], KEY)


async def test_a_data_key_comes_back_in_its_place_alone(wrapper: Any, kms: Kms) -> None:
    """One request each; what was moved or changed is refused."""
    wrapped = await wrapper.wrap(b"d" * 32, b"here")

    assert f"{KEY}/cryptoKeyVersions/1" == wrapped.version
    assert b"d" * 32 not in wrapped.data
    assert b"d" * 32 == await wrapper.unwrap(wrapped, b"here")
    assert ["encrypt", "decrypt"] == kms.asked
    with pytest.raises(StoredDataError, match="another place"):
        await wrapper.unwrap(wrapped, b"there")


async def test_a_store_takes_one_request_a_user_and_rotates(tmp_path: Path, kms: Kms, wrapper: Any) -> None:
    """A new version wraps what an older one did."""
    for _ in range(2):
        async with Store.local(tmp_path, encryption=KmsEnvelope(key=wrapper)) as store:
            if await store.sessions.get_session(**THERE) is None:
                await store.sessions.create_session(**THERE, state={"a": 1})
    before = list(kms.asked)
    kms.add_version(KEY)
    async with Store.local(tmp_path, encryption=KmsEnvelope(key=wrapper)) as store:
        rotated, again = await store.rotate_keys(), await store.rotate_keys()
        await read(store.sessions, THERE)

    assert ["encrypt", "decrypt"] == before
    assert (RotationReport(keys=1, rewrapped=1), RotationReport(keys=1)) == (rotated, again)


@pytest.mark.usefixtures("passing")
async def test_a_rotation_goes_on_behind_a_version_that_is_gone(
    tmp_path: Path, kms: Kms, wrapper: Any
) -> None:
    """Its data keys are counted, and all others are wrapped anew."""
    async with Store.local(tmp_path, encryption=KmsEnvelope(key=wrapper)) as store:
        for user in ("one", "two"):
            await store.sessions.create_session(**{**THERE, "user_id": user}, state={"a": 1})
        kms.add_version(KEY)
        gone = [grpc.StatusCode.FAILED_PRECONDITION]
        kms.refuses = lambda method: gone.pop() if method == "decrypt" and gone else None
        report = await store.rotate_keys()

    assert RotationReport(keys=2, rewrapped=1, failed=1) == report


async def test_another_key_takes_over_what_the_older_one_wrapped(
    kms: Kms, serving: tuple[Kms, Any], wrapper: Any
) -> None:
    """Only keys that the settings name are ever asked."""
    wrapped = await wrapper.wrap(b"d" * 32, b"here")
    named = wrapper_over(serving[1], OTHER, KEY)
    alone = wrapper_over(serving[1], OTHER)

    assert b"d" * 32 == await named.unwrap(wrapped, b"here")
    assert f"{OTHER}/cryptoKeyVersions/1" == (await named.wrap(b"d" * 32, b"here")).version
    with pytest.raises(StoredDataError):
        await alone.unwrap(wrapped, b"here")
    assert kms.keys


@pytest.mark.usefixtures("passing")
@pytest.mark.parametrize(
    ("code", "error", "says"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, AccessDeniedError, "cryptoKeyEncrypterDecrypter"),
        (grpc.StatusCode.NOT_FOUND, NotProvisionedError, "make the key"),
        (grpc.StatusCode.FAILED_PRECONDITION, NotProvisionedError, "enable it"),
        (grpc.StatusCode.UNAVAILABLE, UnavailableError, "try again later"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, UnavailableError, "try again later"),
    ],
)
async def test_each_refusal_says_what_to_do(
    wrapper: Any, kms: Kms, code: grpc.StatusCode, error: type[Exception], says: str
) -> None:
    """The message names the key, and never a data key."""
    kms.refuses = lambda _: code

    with pytest.raises(error, match=says) as refused:
        await wrapper.wrap(b"d" * 32, b"here")

    assert KEY in str(refused.value)
    assert "dddd" not in str(refused.value)


async def test_a_refusal_for_now_is_tried_again(wrapper: Any, kms: Kms) -> None:
    """A data key is not lost to one bad second."""
    left = [grpc.StatusCode.UNAVAILABLE]
    kms.refuses = lambda _: left.pop() if left else None

    wrapped = await wrapper.wrap(b"d" * 32, b"here")

    assert b"d" * 32 == await wrapper.unwrap(wrapped, b"here")
    assert ["encrypt", "encrypt", "decrypt"] == kms.asked


async def test_a_damaged_answer_is_not_used(wrapper: Any, kms: Kms) -> None:
    """The checksum shows it, and the key is asked again."""
    wrapped = await wrapper.wrap(b"d" * 32, b"here")
    kms.damaged = 1

    assert b"d" * 32 == await wrapper.unwrap(wrapped, b"here")
    assert ["encrypt", "decrypt", "decrypt"] == kms.asked


async def test_a_wrapper_that_was_closed_leaves_a_lent_client_open(wrapper: Any) -> None:
    """And works again."""
    await wrapper.close()

    assert await wrapper.wrap(b"d" * 32, b"here")
    assert type(wrapper) is type(wrapper_of(KmsEnvelope(key=KEY)))
