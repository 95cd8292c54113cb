"""Show that conditions hold or refuse, and that refusing changes nothing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from google.api_core.exceptions import NotFound, PreconditionFailed

from gcp_adk_store.testing.storage_emulator.exchange import ApiError
from gcp_adk_store.testing.storage_emulator.resources import Preconditions, Version, check_etags

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.cloud import storage

    from gcp_adk_store.testing.storage_emulator import StorageEmulator
    from tests.emulators.storage.conftest import Call

WRITERS = 50


@pytest.mark.parametrize(
    ("conditions", "found", "reading", "expected"),
    [
        ({}, None, False, None),
        ({"ifGenerationMatch": "0"}, None, False, None),
        ({"ifGenerationMatch": "0"}, Version(5, 1), False, 412),
        ({"ifGenerationMatch": "5"}, Version(5, 1), False, None),
        ({"ifGenerationMatch": "5"}, None, False, 412),
        ({"ifGenerationNotMatch": "5"}, Version(5, 1), False, 412),
        ({"ifGenerationNotMatch": "5"}, Version(5, 1), True, 304),
        ({"ifGenerationNotMatch": "0"}, None, False, 412),
        ({"ifMetagenerationMatch": "1"}, Version(5, 1), False, None),
        ({"ifMetagenerationMatch": "2"}, Version(5, 1), True, 412),
        ({"ifMetagenerationMatch": "1"}, None, False, 412),
        ({"ifMetagenerationNotMatch": "1"}, Version(5, 1), False, 412),
        ({"ifMetagenerationNotMatch": "1"}, Version(5, 1), True, 304),
        ({"ifMetagenerationNotMatch": "1"}, None, False, None),
        ({"ifGenerationMatch": "4", "ifMetagenerationNotMatch": "1"}, Version(5, 1), True, 412),
    ],
)
def test_a_condition_is_decided_by_the_stored_version(
    conditions: dict[str, str], found: Version | None, *, reading: bool, expected: int | None
) -> None:
    """Each condition holds, answers 412, or answers 304 to a read."""
    try:
        Preconditions.parse(conditions).check(found, reading=reading)
        status = None
    except ApiError as exc:
        status = exc.status

    assert expected == status


@pytest.mark.parametrize(
    ("match", "none_match", "expected"),
    [
        ("a", None, None),
        ('"b", a', None, None),
        ("b", None, 412),
        (None, "a", 304),
        (None, "b", None),
    ],
)
def test_an_etag_condition_is_decided_by_the_stored_etag(
    match: str | None, none_match: str | None, expected: int | None
) -> None:
    """If-Match needs the tag among its list, If-None-Match needs it absent."""
    try:
        check_etags(found="a", match=match, none_match=none_match)
        status = None
    except ApiError as exc:
        status = exc.status

    assert expected == status


def test_a_condition_that_is_no_number_is_refused(bucket: storage.Bucket, call: Call) -> None:
    """Asking for generation "x" is a bad request, not an ignored parameter."""
    answer = call(
        "POST",
        f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name=o&ifGenerationMatch=x",
        b"",
    )

    assert HTTPStatus.BAD_REQUEST == answer.status


@pytest.mark.parametrize("chunk_size", [None, 256 * 1024])
def test_creating_what_exists_is_refused(bucket: storage.Bucket, chunk_size: int | None) -> None:
    """The second create of a name fails with 412 and the first content stays."""
    bucket.blob("o", chunk_size=chunk_size).upload_from_string(b"first", if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        bucket.blob("o", chunk_size=chunk_size).upload_from_string(b"second", if_generation_match=0)

    assert b"first" == bucket.blob("o").download_as_bytes()


def test_creating_what_exists_by_a_media_upload_is_refused(bucket: storage.Bucket, call: Call) -> None:
    """A media upload honours ifGenerationMatch=0 and says so in JSON."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=media&name=o&ifGenerationMatch=0"
    statuses = [call("POST", target, b"x").status for _ in range(2)]
    body = call("POST", target, b"x").json()

    assert [200, 412] == statuses
    assert (412, "conditionNotMet") == (
        body["error"]["code"],
        body["error"]["errors"][0]["reason"],
    )


def test_a_resumable_upload_of_what_exists_is_refused_at_its_start(
    bucket: storage.Bucket, call: Call
) -> None:
    """No byte is sent in vain: the start answers 412 and opens no upload."""
    bucket.blob("o").upload_from_string(b"x")
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=resumable&ifGenerationMatch=0"
    answer = call("POST", target, json.dumps({"name": "o"}).encode())

    assert (412, None) == (answer.status, answer.headers.get("Location"))


def test_a_resumable_upload_is_checked_again_when_it_finishes(bucket: storage.Bucket, call: Call) -> None:
    """An object created while an upload runs makes the upload fail at its end."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=resumable&ifGenerationMatch=0"
    started = call("POST", target, json.dumps({"name": "o"}).encode())
    bucket.blob("o").upload_from_string(b"winner")
    finished = call("PUT", started.headers["Location"], b"loser", Content_Range="bytes 0-4/5")

    assert (200, 412) == (started.status, finished.status)
    assert b"winner" == bucket.blob("o").download_as_bytes()


def test_copy_rewrite_compose_and_move_do_not_overwrite_when_asked_to(
    bucket: storage.Bucket,
) -> None:
    """Every way to create an object from objects honours the destination's condition."""
    source = bucket.blob("source")
    source.upload_from_string(b"new")
    target = bucket.blob("target")
    target.upload_from_string(b"old")
    attempts: list[Callable[[], object]] = [
        lambda: bucket.copy_blob(source, bucket, "target", if_generation_match=0),
        lambda: bucket.blob("target").rewrite(source, if_generation_match=0),
        lambda: bucket.blob("target").compose([source], if_generation_match=0),
        lambda: bucket.move_blob(source, "target", if_generation_match=0),
    ]
    for attempt in attempts:
        with pytest.raises(PreconditionFailed):
            attempt()

    assert b"old" == bucket.blob("target").download_as_bytes()
    assert b"new" == bucket.blob("source").download_as_bytes()


def test_copy_rewrite_and_compose_check_their_source(bucket: storage.Bucket) -> None:
    """A source of another generation is refused and nothing is created."""
    source = bucket.blob("source")
    source.upload_from_string(b"x")
    wrong = int(source.generation) + 1
    attempts: list[Callable[[], object]] = [
        lambda: bucket.copy_blob(source, bucket, "t", if_source_generation_match=wrong),
        lambda: bucket.blob("t").rewrite(source, if_source_metageneration_match=9),
        lambda: bucket.blob("t").compose([source], if_source_generation_match=[wrong]),
    ]
    for attempt in attempts:
        with pytest.raises(PreconditionFailed):
            attempt()

    assert not bucket.blob("t").exists()


def test_a_wrong_generation_changes_nothing(bucket: storage.Bucket) -> None:
    """Delete, patch, overwrite and download for another generation answer 412."""
    blob = bucket.blob("o")
    blob.upload_from_string(b"x")
    wrong = int(blob.generation) + 1
    other = bucket.blob("o")
    other.metadata = {"k": "v"}
    attempts: list[Callable[[], object]] = [
        lambda: bucket.blob("o").delete(if_generation_match=wrong),
        lambda: other.patch(if_generation_match=wrong),
        lambda: other.patch(if_metageneration_match=9),
        lambda: bucket.blob("o").upload_from_string(b"y", if_generation_match=wrong),
        lambda: bucket.blob("o").download_as_bytes(if_generation_match=wrong),
    ]
    for attempt in attempts:
        with pytest.raises(PreconditionFailed):
            attempt()
    found = bucket.get_blob("o")

    assert (blob.generation, 1, None) == (found.generation, found.metageneration, found.metadata)
    assert b"x" == found.download_as_bytes()


def test_a_read_of_what_the_reader_has_answers_not_modified(bucket: storage.Bucket, call: Call) -> None:
    """A "not match" condition turns a read of the same generation into an empty 304."""
    blob = bucket.blob("o")
    blob.upload_from_string(b"x")
    for path in ("/storage/v1", "/download/storage/v1"):
        answer = call("GET", f"{path}/b/{bucket.name}/o/o?alt=media&ifGenerationNotMatch={blob.generation}")

        assert (304, b"") == (answer.status, answer.body)


def test_an_overwritten_generation_is_gone(bucket: storage.Bucket) -> None:
    """Without versioning an old generation answers 404, never the new content."""
    old = bucket.blob("o")
    old.upload_from_string(b"old")
    new = bucket.blob("o")
    new.upload_from_string(b"new")
    pinned = bucket.blob("o", generation=old.generation)
    with pytest.raises(NotFound):
        pinned.download_as_bytes()
    with pytest.raises(NotFound):
        pinned.reload()
    with pytest.raises(NotFound):
        pinned.delete()

    assert b"new" == bucket.blob("o", generation=new.generation).download_as_bytes()


def test_generations_grow_and_metagenerations_count_patches(bucket: storage.Bucket) -> None:
    """Each write has a larger generation in microseconds; a patch adds one metageneration."""
    blob = bucket.blob("o")
    generations = []
    for _ in range(20):
        blob.upload_from_string(b"x")
        generations.append(int(blob.generation))
        written = blob.metageneration
    blob.metadata = {"k": "v"}
    blob.patch()

    assert sorted(set(generations)) == generations
    assert len(str(generations[0])) == len(str(int(blob.time_created.timestamp() * 1e6)))
    assert (1, 2, generations[-1]) == (written, blob.metageneration, int(blob.generation))


def test_checking_and_writing_are_one_step(
    emulator: StorageEmulator, bucket: storage.Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is held from the check of a condition to the write it guards."""
    held = []
    find, write = emulator.storage.find, emulator.storage.write

    def watched_find(*args: str, generation: str | None = None) -> dict[str, Any] | None:
        held.append(("find", emulator.lock.locked()))
        return find(*args, generation=generation)

    def watched_write(resource: dict[str, Any], content: bytes) -> None:
        held.append(("write", emulator.lock.locked()))
        write(resource, content)

    monkeypatch.setattr(emulator.storage, "find", watched_find)
    monkeypatch.setattr(emulator.storage, "write", watched_write)
    bucket.blob("o").upload_from_string(b"x", if_generation_match=0)

    assert [("find", True), ("write", True), ("find", True)] == held
    assert not emulator.lock.locked()


def test_one_of_fifty_concurrent_creators_wins(bucket: storage.Bucket) -> None:
    """Whoever creates first wins; everyone else learns it by 412 and by nothing else."""
    barrier = Barrier(WRITERS)

    def create(name: str, writer: int) -> str:
        barrier.wait()
        try:
            bucket.blob(name).upload_from_string(str(writer), if_generation_match=0, retry=None)
        except PreconditionFailed:
            return "lost"
        return f"won {writer}"

    with ThreadPoolExecutor(WRITERS) as pool:
        for turn in range(5):
            name = f"o{turn}"
            outcomes = list(pool.map(create, [name] * WRITERS, range(WRITERS)))
            winner = bucket.blob(name).download_as_bytes().decode()

            assert sorted([*["lost"] * (WRITERS - 1), f"won {winner}"]) == sorted(outcomes)
