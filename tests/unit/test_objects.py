"""Show that artifacts are laid out as ADK lays them out, and come back as they were, gzip unpacked whole."""

import gzip
import io
import json
import math
import zlib
from dataclasses import replace
from typing import Any

import pytest
from google.genai import types
from hypothesis import assume, given
from hypothesis import strategies as st

from gcp_adk_store import InvalidInputError
from gcp_adk_store.artifacts.files import Unpacked
from gcp_adk_store.codec.names import (
    UPLOADS,
    filenames,
    object_name,
    parse_version,
    scope_prefix,
    upload_name,
    user_prefix,
    version_prefix,
)
from gcp_adk_store.codec.objects import StoredObject, decode_file, encode_artifact, encode_file
from gcp_adk_store.model.keys import ArtifactKey

# Ids and names that could meet in one object name if any separator were not kept apart.
IDS = st.sampled_from(["a", "a/b", "b", "a%2Fb", "a%252Fb", "user", "0", "b/0"])
NAMES = st.sampled_from(["a", "b", "b/a", "0", "a/0", "a/", "/a", "user:a", "user:a/0"])
KEYS = st.builds(
    lambda app, user, session, filename: ArtifactKey.of(
        app=app, user=user, session=session, filename=filename
    ),
    IDS,
    IDS,
    IDS,
    NAMES,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
RESERVED = [
    "adkDisplayName",
    "adkIsText",
    "adkFileUri",
    "adkFileMimeType",
    "file_uri",
    "adkStoreSaveId",
    "adkStoreJson",
]
TEXT = types.Part(text="t")
CONTENTS = st.lists(st.binary(max_size=50), min_size=1, max_size=3)
CUTS = st.lists(st.integers(1, 30), max_size=10)


def key(filename: str, *, app: str = "shop", session: str | None = "s") -> ArtifactKey:
    """Return the key of an artifact of user u."""
    return ArtifactKey.of(app=app, user="u", session=session, filename=filename)


def blob(data: bytes | None, mime_type: str | None = None, name: str | None = None) -> types.Part:
    """Return a part with inline bytes."""
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, display_name=name))


def file(uri: str | None, mime_type: str | None = None) -> types.Part:
    """Return a part whose content lies elsewhere."""
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=mime_type))


def stored(metadata: dict[str, str], content_type: str | None = "text/plain") -> StoredObject:
    """Return an object as Cloud Storage describes it."""
    return StoredObject(
        name="shop/u/s/f/0",
        generation=1,
        content_type=content_type,
        metadata=metadata,
        create_time=1.0,
        size=9,
    )


def saved(part: types.Part, custom: dict[str, Any] | None = None) -> tuple[StoredObject, bytes]:
    """Return the object, and its bytes, that saving *part* makes."""
    payload = encode_artifact(part, custom_metadata=custom, save_id="id1")
    return stored(dict(payload.metadata), payload.content_type), payload.data


@pytest.mark.parametrize(
    ("artifact", "version", "name"),
    [
        (key("f.txt"), 0, "shop/u/s/f.txt/0"),
        (key("a/b.txt"), 12, "shop/u/s/a/b.txt/12"),
        (key("user:f"), 3, "shop/u/user/user:f/3"),
        (key("f%2F#?", session="s t"), 1, "shop/u/s t/f%2F#?/1"),
        (key("f", app="projects/p"), 1, "projects%2Fp/u/s/f/1"),
        (key("f", session="a%2Fb"), 1, "shop/u/a%252Fb/f/1"),
    ],
)
def test_an_object_has_adks_name(artifact: ArtifactKey, version: int, name: str) -> None:
    """A bucket is shared with ADK's own service; only ids that it would let collide differ."""
    assert (name, version) == (
        object_name(artifact, version),
        parse_version(name, version_prefix(artifact)),
    )
    assert name.startswith(scope_prefix(artifact.scope))


@given(st.lists(st.tuples(KEYS, st.integers(0, 2)), unique=True, max_size=12))
def test_two_artifacts_never_share_an_object(versions: list[tuple[ArtifactKey, int]]) -> None:
    """Whatever the ids and names, each version of each artifact has an object of its own."""
    names = {object_name(artifact, version) for artifact, version in versions}

    assert len(versions) == len(names)


@pytest.mark.parametrize(
    ("suffix", "version"),
    [("0", 0), ("10", 10), *((odd, None) for odd in ("", "-1", "007", "1.0", "x", "b/0", "٣", "²", "1 "))],
)
def test_only_a_number_is_a_version(suffix: str, version: int | None) -> None:
    """Stray objects and artifacts nested below a name are not versions of it."""
    assert version == parse_version(f"shop/u/s/a/{suffix}", "shop/u/s/a/")
    assert parse_version(f"shop/u/s/b/{suffix}", "shop/u/s/a/") is None


def test_metadata_that_is_no_header_travels_as_json() -> None:
    """Empty keys, and values with lone surrogates."""
    custom = {"": "x", "half": "\ud800", "plain": "text"}
    payload = encode_artifact(TEXT, custom_metadata=custom, save_id="s")

    assert {"plain": "text"} == {k: v for k, v in payload.metadata.items() if not k.startswith("adk")}
    assert custom == json.loads(payload.metadata["adkStoreJson"]) | {"plain": "text"}


def test_filenames_are_those_with_a_version() -> None:
    """A listing names each artifact once, nested ones too, and no stray object."""
    found = ["a/0", "a/1", "b/c/10", "a/0/2", "stray", "x/y", "user:u/0", "7", "d//3"]
    names = [f"app/user/session/{name}" for name in found]

    assert {"a", "b/c", "a/0", "user:u", "d/"} == filenames(iter(names), "app/user/session/")
    assert {"session/a", "session/b/c", "session/a/0", "session/user:u", "session/d/"} == filenames(
        iter(names), "app/user/"
    )


@pytest.mark.parametrize(
    ("display_name", "custom", "message"),
    [
        ("\ud800", None, "a lone surrogate"),
        (None, {"k": b"x"}, "holds a bytes, which JSON cannot hold"),
        (None, {"k": "x" * 8192}, "bytes of object metadata, the limit is 8192"),
        ("x" * 8192, None, "bytes of object metadata, the limit is 8192"),
    ],
    ids=["no Unicode", "no JSON", "too much", "too long a name"],
)
def test_a_files_metadata_is_refused_as_that_of_bytes(
    display_name: str | None, custom: dict[str, Any] | None, message: str
) -> None:
    """Before the file is sent, which may be large."""
    with pytest.raises(InvalidInputError, match=message):
        encode_file(mime_type=None, display_name=display_name, custom_metadata=custom, save_id="id1")


@pytest.mark.parametrize(
    ("metadata", "content_type", "mime_type"),
    [
        ({"adkFileUri": "gs://b/f", "adkFileMimeType": "a/b"}, "text/plain", "a/b"),
        ({"adkFileUri": "gs://b/f"}, "a/b", "a/b"),
        ({"file_uri": "gs://b/f"}, "a/b", "a/b"),
        ({"adkFileUri": "gs://b/f", "file_uri": "gs://b/old"}, None, None),
    ],
)
def test_a_file_that_adk_saved_is_read(
    metadata: dict[str, str], content_type: str | None, mime_type: str | None
) -> None:
    """ADK's own keys, the one of its first releases too, lead to the file."""
    found = stored(metadata, content_type)

    assert "gs://b/f" == found.file_uri
    assert file("gs://b/f", mime_type) == decode_file(found, "gs://b/f")


@pytest.mark.parametrize("part", [TEXT, blob(b"x", "a/b", "n"), file("gs://b/f", "a/b")])
@pytest.mark.parametrize("name", RESERVED)
def test_a_callers_key_never_replaces_the_services_own(part: types.Part, name: str) -> None:
    """Reserved keys in custom metadata survive and change nothing about the artifact."""
    plain, _ = saved(part)
    found, _ = saved(part, {name: "mine"})

    assert {name: "mine"} == found.custom_metadata
    assert dict(plain.metadata) == {k: v for k, v in found.metadata.items() if k != "adkStoreJson"}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_metadata_without_a_finite_number_is_refused(number: float) -> None:
    """ADK's server could not send it; what is stored so is still read."""
    for custom in ({"k": number}, {"k": [{"deep": number}]}):
        with pytest.raises(InvalidInputError, match="custom_metadata holds an infinite number, or NaN"):
            encode_artifact(TEXT, custom_metadata=custom, save_id="id1")

    assert {"k": math.inf} == stored({"adkStoreJson": '{"k":Infinity}'}).custom_metadata


def test_metadata_of_exactly_8_kib_is_taken() -> None:
    """The limit counts keys and values in bytes, the service's own included."""
    own = sum(len(k) + len(v) for k, v in saved(TEXT)[0].metadata.items())
    room = 8192 - own - len("k")
    found, _ = saved(TEXT, {"k": "ü" * (room // 2) + "x" * (room % 2)})

    assert 8192 == sum(len(k.encode()) + len(v.encode()) for k, v in found.metadata.items())
    with pytest.raises(InvalidInputError) as caught:
        saved(TEXT, {"k": "ü" * (room // 2) + "x" * (room % 2 + 1)})
    assert str(caught.value).startswith(
        "custom_metadata makes 8193 bytes of object metadata, the limit is 8192;"
    )


@pytest.mark.parametrize(
    ("artifact", "name"),
    [
        (key("f.txt"), "adk-store-uploads/4d8a6ba79149a7794a768e48185d8ecc/id1"),
        (key("user:f"), "adk-store-uploads/4d8a6ba79149a779411f02ef43791ac4/id1"),
    ],
)
def test_an_upload_waits_under_a_stable_name(artifact: ArtifactKey, name: str) -> None:
    """What was put before an upgrade is found after it, below the prefix that a lifecycle rule names."""
    assert name == upload_name(artifact, "id1")


@given(KEYS, st.integers(0, 2), KEYS)
def test_an_upload_is_no_artifact(artifact: ArtifactKey, version: int, other: ArtifactKey) -> None:
    """Not even to an app and a user whose ids are those of its name."""
    waiting = upload_name(artifact, "0")
    _, whose, _ = waiting.split("/")
    squatter = replace(other, scope=replace(other.scope, app=UPLOADS, user=whose))

    assert waiting.startswith(user_prefix(squatter.scope))
    assert set() == filenames([waiting], user_prefix(squatter.scope))
    assert waiting not in {object_name(squatter, version), object_name(other, version)}


def unpack(stream: bytes, cuts: list[int]) -> bytes:
    """Return what *stream* becomes when it comes in pieces of these sizes, and the rest at once."""
    file = io.BytesIO()
    unpacked = Unpacked(file)
    for size in cuts:
        unpacked.write(stream[:size])
        stream = stream[size:]
    unpacked.write(stream)
    unpacked.require_end()
    return file.getvalue()


@given(CONTENTS, CUTS, st.sampled_from([b"", bytes(3), b"padding"]))
def test_all_members_are_unpacked(contents: list[bytes], cuts: list[int], padding: bytes) -> None:
    """One after the other, wherever the stream is cut; padding at the end does not count."""
    stream = b"".join(map(gzip.compress, contents)) + padding

    assert b"".join(contents) == unpack(stream, cuts)


@given(CONTENTS, CUTS, st.data())
def test_a_stream_that_was_cut_is_reported(
    contents: list[bytes], cuts: list[int], data: st.DataObject
) -> None:
    """Never the start of it as if it were all, not even where a member's header was cut."""
    members = list(map(gzip.compress, contents))
    left = data.draw(st.integers(1, len(members[-1]) - 1))
    with pytest.raises(zlib.error):
        unpack(b"".join(members)[:-left], cuts)


@given(st.binary(min_size=1), CUTS)
def test_another_stream_is_reported(stream: bytes, cuts: list[int]) -> None:
    """What is marked as gzip and is none."""
    assume(not stream.startswith(b"\x1f\x8b"))
    with pytest.raises(zlib.error):
        unpack(stream, cuts)
