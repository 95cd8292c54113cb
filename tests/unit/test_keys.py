"""Show which ids and filenames are legal beyond what the conformance suites ask of every service."""

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope, SessionKey


def artifact(session: str | None, filename: str = "f") -> ArtifactKey:
    """Return the key of *filename* in app a of user u."""
    return ArtifactKey.of(app="a", user="u", session=session, filename=filename)


@pytest.mark.parametrize("value", ["a", "apps", "users", "user", "a..b", "...", "1:2", "projects/1/x"])
def test_an_id_that_looks_like_a_bad_one_is_kept(value: str) -> None:
    """As ADK keeps it."""
    scope = ArtifactScope(app=value, user=value, session=value)

    assert (value, value, value) == (scope.app, scope.user, scope.session)


@pytest.mark.parametrize("session", [" .. ", " /x", " C:x", "\t."])
def test_padding_hides_no_bad_session_id(session: str) -> None:
    """What is refused without it is refused with it."""
    with pytest.raises(InvalidInputError, match="session_id"):
        ArtifactScope(app="a", user="u", session=session)


def test_padding_around_other_ids_counts() -> None:
    """App and user ids with padding are other apps and users."""
    key = SessionKey(app=" a ", user=" u ", session="s x")

    assert (" a ", " u ", "s x") == (key.app, key.user, key.session)


@pytest.mark.parametrize("filename", ["User:f", " user:f", "x/user:f", "..", "/f", " "])
def test_any_other_filename_stays_in_the_session(filename: str) -> None:
    """Only the exact start ``user:`` leaves the session."""
    key = artifact("s", filename)

    assert (ArtifactScope(app="a", user="u", session="s"), filename) == (key.scope, key.filename)


@pytest.mark.parametrize(
    ("filename", "message"),
    [
        ("", "filename must not be empty."),
        ("user:", "filename must not be empty."),
        ("a\nb", "filename must not contain line breaks or null bytes."),
        ("a\r", "filename must not contain line breaks or null bytes."),
        ("user:\x00", "filename must not contain line breaks or null bytes."),
    ],
)
def test_a_filename_that_no_object_can_have_is_refused(filename: str, message: str) -> None:
    """Cloud Storage's forbidden names are refused before anything is sent."""
    with pytest.raises(InvalidInputError) as caught:
        artifact("s", filename)

    assert message == str(caught.value)


RESERVED = "session_id must not be or start with the reserved value 'user'."


def refusal(key: ArtifactKey) -> str | None:
    """Return why nothing can be saved under *key*, ``None`` if something can."""
    try:
        key.require_savable()
    except InvalidInputError as exc:
        return str(exc)
    return None


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (artifact(" user "), RESERVED),
        (artifact("user/"), RESERVED),
        (artifact("users"), None),
        (artifact("User"), None),
        (artifact("x/user"), None),
        (artifact("user", "user:f"), None),
    ],
)
def test_a_session_that_poses_as_the_user_cannot_save(key: ArtifactKey, expected: str | None) -> None:
    """The user's own namespace is written through ``user:`` names only; naming it to read is free."""
    assert expected == refusal(key)


def test_keys_encode_ids_unambiguously() -> None:
    """Errors and logs show each id apart, also where ids hold spaces and quotes."""
    session = SessionKey(app="a", user="u s", session="x'y")
    texts = [str(session.owner), str(session), str(artifact("s", "user:f"))]

    assert [
        "app='a' user='u s'",
        "app='a' user='u s' session=\"x'y\"",
        "app='a' user='u' session=None filename='user:f'",
    ] == texts
