"""Show that conditions hold or refuse, and that refusing changes nothing."""

import json
from collections.abc import Callable

import pytest
from google.api_core.exceptions import PreconditionFailed
from google.cloud import storage

from gcp_adk_store.testing.storage_emulator.exchange import ApiError
from gcp_adk_store.testing.storage_emulator.resources import Preconditions, Version, check_etags
from tests.emulators.storage.conftest import Call


def refusal(decide: Callable[[], None]) -> int | None:
    """Return the status that a decision answers with, None if it lets the request through."""
    try:
        decide()
    except ApiError as exc:
        return int(exc.status)
    return None


V5 = Version(5, 1)


@pytest.mark.parametrize(
    ("conditions", "found", "reading", "expected"),
    [
        ({}, None, False, None),
        ({"ifGenerationMatch": "0"}, None, False, None),
        ({"ifGenerationMatch": "0"}, V5, False, 412),
        ({"ifGenerationMatch": "5"}, V5, False, None),
        ({"ifGenerationMatch": "5"}, None, False, 412),
        ({"ifGenerationNotMatch": "5"}, V5, False, 412),
        ({"ifGenerationNotMatch": "5"}, V5, True, 304),
        ({"ifGenerationNotMatch": "0"}, None, False, 412),
        ({"ifMetagenerationMatch": "1"}, V5, False, None),
        ({"ifMetagenerationMatch": "2"}, V5, True, 412),
        ({"ifMetagenerationMatch": "1"}, None, False, 412),
        ({"ifMetagenerationNotMatch": "1"}, V5, False, 412),
        ({"ifMetagenerationNotMatch": "1"}, V5, True, 304),
        ({"ifMetagenerationNotMatch": "1"}, None, False, None),
        ({"ifGenerationMatch": "4", "ifMetagenerationNotMatch": "1"}, V5, True, 412),
    ],
)
def test_a_condition_is_decided_by_the_stored_version(
    conditions: dict[str, str], found: Version | None, *, reading: bool, expected: int | None
) -> None:
    """Each condition holds, answers 412, or answers 304 to a read."""
    assert expected == refusal(lambda: Preconditions.parse(conditions).check(found, reading=reading))


@pytest.mark.parametrize(
    ("match", "none_match", "expected"),
    [("a", None, None), ('"b", a', None, None), ("b", None, 412), (None, "a", 304), (None, "b", None)],
)
def test_an_etag_condition_is_decided_by_the_stored_etag(
    match: str | None, none_match: str | None, expected: int | None
) -> None:
    """If-Match needs the tag among its list, If-None-Match needs it absent."""
    assert expected == refusal(lambda: check_etags(found="a", match=match, none_match=none_match))


def assert_each_is_refused(*attempts: Callable[[], object]) -> None:
    """Check that each attempt answers 412."""
    for attempt in attempts:
        with pytest.raises(PreconditionFailed):
            attempt()


@pytest.mark.parametrize("chunk_size", [None, 256 * 1024])
def test_creating_what_exists_is_refused(bucket: storage.Bucket, call: Call, chunk_size: int | None) -> None:
    """With 412, which is JSON, and the first content stays; a resumable upload is refused at its start."""
    bucket.blob("o", chunk_size=chunk_size).upload_from_string(b"first", if_generation_match=0)
    assert_each_is_refused(
        lambda: bucket.blob("o", chunk_size=chunk_size).upload_from_string(b"second", if_generation_match=0)
    )
    target = f"/upload/storage/v1/b/{bucket.name}/o?name=o&ifGenerationMatch"
    media = call("POST", f"{target}=0&uploadType=media", b"x")
    resumable = call("POST", f"{target}=0&uploadType=resumable", b"{}")

    assert (412, "conditionNotMet") == (media.status, media.json()["error"]["errors"][0]["reason"])
    assert (412, None) == (resumable.status, resumable.headers.get("Location"))
    assert 400 == call("POST", f"{target}=x&uploadType=media", b"").status, "no number"
    assert b"first" == bucket.blob("o").download_as_bytes()


def test_a_resumable_upload_is_checked_again_when_it_finishes(bucket: storage.Bucket, call: Call) -> None:
    """An object created while an upload runs makes the upload fail at its end."""
    target = f"/upload/storage/v1/b/{bucket.name}/o?uploadType=resumable&ifGenerationMatch=0"
    started = call("POST", target, json.dumps({"name": "o"}).encode())
    bucket.blob("o").upload_from_string(b"winner")
    finished = call("PUT", started.headers["Location"], b"loser", Content_Range="bytes 0-4/5")

    assert (200, 412) == (started.status, finished.status)
    assert b"winner" == bucket.blob("o").download_as_bytes()


def test_copy_rewrite_compose_and_move_do_not_overwrite_when_asked_to(bucket: storage.Bucket) -> None:
    """Each honours the destination's condition; a source of another generation creates nothing."""
    source, target, new = (bucket.blob(name) for name in ("source", "target", "t"))
    source.upload_from_string(b"new")
    target.upload_from_string(b"old")
    wrong = int(source.generation) + 1
    assert_each_is_refused(
        lambda: bucket.copy_blob(source, bucket, "target", if_generation_match=0),
        lambda: bucket.blob("target").rewrite(source, if_generation_match=0),
        lambda: bucket.blob("target").compose([source], if_generation_match=0),
        lambda: bucket.move_blob(source, "target", if_generation_match=0),
        lambda: bucket.copy_blob(source, bucket, "t", if_source_generation_match=wrong),
        lambda: new.rewrite(source, if_source_metageneration_match=9),
        lambda: new.compose([source], if_source_generation_match=[wrong]),
    )

    assert b"old" == bucket.blob("target").download_as_bytes()
    assert b"new" == bucket.blob("source").download_as_bytes()
    assert not new.exists()


def test_a_wrong_generation_changes_nothing(bucket: storage.Bucket) -> None:
    """Delete, patch, overwrite and download for another generation answer 412."""
    blob = bucket.blob("o")
    blob.upload_from_string(b"x")
    wrong = int(blob.generation) + 1
    other = bucket.blob("o")
    other.metadata = {"k": "v"}
    assert_each_is_refused(
        lambda: bucket.blob("o").delete(if_generation_match=wrong),
        lambda: other.patch(if_generation_match=wrong),
        lambda: other.patch(if_metageneration_match=9),
        lambda: bucket.blob("o").upload_from_string(b"y", if_generation_match=wrong),
        lambda: bucket.blob("o").download_as_bytes(if_generation_match=wrong),
    )
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
