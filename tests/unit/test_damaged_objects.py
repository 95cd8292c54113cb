"""Show that no damage of an object's metadata, of a reference or of a cursor crashes its reader."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from gcp_adk_store.codec.cursors import decode_event_cursor, decode_place_in
from gcp_adk_store.codec.objects import StoredObject, decode_artifact, decode_file
from gcp_adk_store.errors import InvalidInputError, StoredDataError, StoreError
from gcp_adk_store.model.artifacts import ArtifactReference
from gcp_adk_store.model.keys import ArtifactScope
from tests.support.damage import BROKEN_JSON, HUSH, JSON

NAME = "shop/u/s/f/0"
WITHIN = ArtifactScope(app="shop", user="u", session="s")
# Lone surrogates among them: JSON, in which listings come, can encode them.
TEXTS = st.text(st.characters(exclude_categories=()), max_size=5)
METADATA = st.dictionaries(
    st.sampled_from(["adkStoreJson", "adkIsText", "adkDisplayName", "adkFileUri", "file_uri", "x", "\ud800"]),
    TEXTS
    | BROKEN_JSON
    | JSON.map(json.dumps)
    | st.sampled_from(["true", '{"a":1}', '{"\\ud800":"\\ud800"}', '[["a",1]]', '{"a":1e400}']),
)
OBJECTS = st.builds(
    lambda metadata, kind: StoredObject(
        name=NAME, generation=1, content_type=kind, metadata=metadata, create_time=1.0, size=1
    ),
    METADATA,
    st.none() | TEXTS | st.just("text/plain"),
)


@given(OBJECTS)
def test_damaged_metadata_is_told_or_read(stored: StoredObject) -> None:
    """By the object's name; texts that others put there are read as they are."""
    told = ""
    found: Any = None
    try:
        found = stored.custom_metadata
    except StoredDataError as exc:
        told = str(exc)

    assert found is not None or f"the metadata adkStoreJson of object {NAME!r} is not a JSON object" == told
    if "adkStoreJson" not in stored.metadata:
        others = {key: value for key, value in stored.metadata.items() if key in {"x", "\ud800"}}
        assert others == found
    assert HUSH not in told


@given(OBJECTS, st.binary(max_size=9) | st.just(b"\xff"))
def test_a_damaged_artifact_is_told_or_read(stored: StoredObject, data: bytes) -> None:
    """As text where it is text, by the object's name where it no longer is."""
    marked = stored.metadata.get("adkIsText") == "true"
    try:
        part = decode_artifact(stored, data)
    except StoredDataError as exc:
        told = str(exc)
    else:
        read = data if part is None or part.inline_data is None else part.inline_data.data
        assert data == ((part.text or "").encode() if part is not None and marked else read)
        return

    assert marked
    assert f"object {NAME!r} is marked as text, but its bytes are not UTF-8" == told


@given(OBJECTS, TEXTS)
def test_an_artifact_elsewhere_is_read(stored: StoredObject, uri: str) -> None:
    """Its address is the caller's business, whatever it is."""
    file = decode_file(stored, uri).file_data

    assert isinstance(file, types.FileData)
    assert uri == file.file_uri


URIS = TEXTS | st.builds(
    "artifact://apps/{}/users/{}{}/artifacts/{}/versions/{}".format,
    st.sampled_from(["shop", "", "other", "shop/users/u"]),
    st.sampled_from(["u", "", "..", "\ud800"]),
    st.sampled_from(["", "/sessions/s", "/sessions/ s ", "/sessions/", "/sessions/t"]),
    st.sampled_from(["f", "user:f", "user:", "a\nb", "\ud800", "f" * 2000, ""]),
    st.sampled_from(["1", "0", "-1", "1.5", "1e3", "9" * 18, "9" * 5000, "１", ""]),
)


@given(URIS)
def test_a_damaged_reference_is_refused_or_stays_within_its_scope(uri: str) -> None:
    """It never leads to what is another user's or another session's."""
    try:
        target = ArtifactReference.parse(uri, within=WITHIN)
    except InvalidInputError:
        return

    assert ("shop", "u") == (target.key.scope.app, target.key.scope.user)
    assert target.key.scope.session in {None, "s"}
    assert 0 <= target.version < 10**18


def encoded(text: str) -> str:
    """Return *text* as a cursor."""
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode()


PLACES = st.lists(JSON | st.integers() | st.floats() | TEXTS, min_size=2, max_size=4)
CURSORS: st.SearchStrategy[Any] = (
    TEXTS
    | BROKEN_JSON.map(encoded)
    | PLACES.map(lambda place: encoded(json.dumps(place)))
    | st.integers()
    | st.binary()
    | st.none()
)


@pytest.mark.parametrize(
    "decode",
    [lambda text: decode_place_in("l", text, float, str, str, of="pages"), decode_event_cursor],
    ids=["page", "event"],
)
@given(cursor=CURSORS)
def test_a_damaged_cursor_is_refused_or_a_place(decode: Callable[[Any], object], cursor: Any) -> None:
    """With a short error, whatever it is."""
    try:
        decode(cursor)
    except StoreError as exc:
        error = exc
    else:
        return

    assert type(error) is InvalidInputError
    assert len(str(error)) < 200


@pytest.mark.parametrize(
    "metadata", [{"file_uri": ""}, {"adkFileUri": ""}, {"adkFileUri": "", "file_uri": ""}]
)
def test_an_empty_address_is_none(metadata: dict[str, str]) -> None:
    """The content is then that of the object itself."""
    stored = StoredObject(
        name=NAME, generation=1, content_type=None, metadata=metadata, create_time=1.0, size=1
    )

    assert stored.file_uri is None
