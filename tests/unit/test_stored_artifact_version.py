"""A version as this library describes it, beside the same one as ADK does."""

from typing import Any

import pytest
from google.adk.artifacts.base_artifact_service import ArtifactVersion

from gcp_adk_store import StoredArtifactVersion

DESCRIBED: dict[str, Any] = {
    "version": 3,
    "canonical_uri": "gs://bkt/app/user/session/f/3",
    "custom_metadata": {"n": [1, None]},
    "create_time": 1.5,
    "mime_type": "a/b",
}
OBJECT: dict[str, Any] = {"size": 5, "generation": 7, "crc32c": "AAAAAA==", "md5": None}
STORED = StoredArtifactVersion(**DESCRIBED, **OBJECT)
PLAIN = ArtifactVersion(**DESCRIBED)


def test_a_stored_version_equals_what_adk_says_of_it() -> None:
    """Both ways, in lists, and under ``!=``: what ADK does not describe does not count."""
    assert STORED == PLAIN
    assert PLAIN == STORED
    assert not STORED != PLAIN  # noqa: SIM202  # the operator is what is shown
    assert not PLAIN != STORED  # noqa: SIM202  # as above
    assert [PLAIN] == [STORED]


@pytest.mark.parametrize("change", [{"version": 4}, {"custom_metadata": {}}, {"mime_type": None}])
def test_a_stored_version_differs_where_adk_says_something_else(change: dict[str, Any]) -> None:
    """Both ways."""
    other = ArtifactVersion(**{**DESCRIBED, **change})

    assert STORED != other
    assert other != STORED


@pytest.mark.parametrize(
    "change", [{"size": 6}, {"generation": 8}, {"crc32c": None}, {"md5": "x"}, {"version": 4}]
)
def test_two_stored_versions_are_compared_as_a_whole(change: dict[str, Any]) -> None:
    """Bytes that were replaced under the same number are another version."""
    assert StoredArtifactVersion(**DESCRIBED, **OBJECT) == STORED
    assert StoredArtifactVersion(**{**DESCRIBED, **OBJECT, **change}) != STORED


def test_other_things_are_never_equal() -> None:
    """Nor other classes that describe a version, which say what equality with them is."""

    class Theirs(ArtifactVersion):
        """A version of another service."""

    assert STORED != DESCRIBED
    assert STORED != 3
    assert STORED != Theirs(**DESCRIBED)
