"""Show which ids are legal, with ADK's phrases for those that are not."""

from collections.abc import Callable

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.model.keys import ArtifactKey, ArtifactScope, SessionKey, UserKey

BAD_SEGMENTS = [
    ("", "must not be empty."),
    (" ", "must not be empty."),
    ("\t\n", "must not be empty."),
    ("a\x00b", "must not contain null bytes."),
    ("/", "'/' must not be an absolute path or start with a slash."),
    ("/etc/passwd", "'/etc/passwd' must not be an absolute path or start with a slash."),
    ("\\share", "'\\\\share' must not be an absolute path or start with a slash."),
    ("C:", "'C:' must not be drive-qualified."),
    ("c:/x", "'c:/x' must not be drive-qualified."),
    (".", "'.' must not contain traversal segments."),
    ("..", "'..' must not contain traversal segments."),
    ("a/../b", "'a/../b' must not contain traversal segments."),
    ("a\\..\\b", "'a\\\\..\\\\b' must not contain traversal segments."),
    ("a/..", "'a/..' must not contain traversal segments."),
    ("a/users/b", "'a/users/b' must not contain reserved path segments."),
    ("apps/a", "'apps/a' must not contain reserved path segments."),
    ("a\\Sessions", "'a\\\\Sessions' must not contain reserved path segments."),
    ("a/ARTIFACTS", "'a/ARTIFACTS' must not contain reserved path segments."),
    ("versions/1", "'versions/1' must not contain reserved path segments."),
]
GOOD_SEGMENTS = ["a", "a/b", "apps", "users", "user", "a..b", "...", "%2F", "1:2", "projects/1/x", "ü 雪"]

SCOPES: dict[str, Callable[[str], ArtifactScope]] = {
    "app_name": lambda value: ArtifactScope(app=value, user="u", session="s"),
    "user_id": lambda value: ArtifactScope(app="a", user=value, session="s"),
    "session_id": lambda value: ArtifactScope(app="a", user="u", session=value),
}
TEXT_FIELDS: dict[str, Callable[[str], object]] = {
    "UserKey app_name": lambda value: UserKey(app=value, user="u"),
    "UserKey user_id": lambda value: UserKey(app="a", user=value),
    "SessionKey app_name": lambda value: SessionKey(app=value, user="u", session="s"),
    "SessionKey user_id": lambda value: SessionKey(app="a", user=value, session="s"),
    "SessionKey session_id": lambda value: SessionKey(app="a", user="u", session=value),
    "ArtifactScope app_name": SCOPES["app_name"],
    "ArtifactScope user_id": SCOPES["user_id"],
    "ArtifactScope session_id": SCOPES["session_id"],
    "ArtifactKey filename": lambda value: ArtifactKey.of(app="a", user="u", session="s", filename=value),
}


def artifact(session: str | None, filename: str = "f") -> ArtifactKey:
    """Return the key of *filename* in app a of user u."""
    return ArtifactKey.of(app="a", user="u", session=session, filename=filename)


@pytest.mark.parametrize("field", SCOPES)
@pytest.mark.parametrize(("value", "phrase"), BAD_SEGMENTS)
def test_a_bad_artifact_id_is_refused_in_adks_words(field: str, value: str, phrase: str) -> None:
    """Each id that ADK refuses is refused with the message that its servers and users match on."""
    with pytest.raises(InvalidInputError) as caught:
        SCOPES[field](value)

    assert f"{field} {phrase}" == str(caught.value)


@pytest.mark.parametrize("value", GOOD_SEGMENTS)
def test_a_good_artifact_id_is_kept(value: str) -> None:
    """Ids that ADK takes, slashes of Agent Engine's app names included, stay as they are."""
    scope = ArtifactScope(app=value, user=value, session=value)

    assert (value, value, value) == (scope.app, scope.user, scope.session)


@pytest.mark.parametrize("value", ["", " ", ".", "..", "/", "a/b", "__x__", "\x00", "C:", "a/users/b", "雪"])
def test_any_text_names_a_user(value: str) -> None:
    """Sessions know no forbidden app or user id; theirs are taken to the letter."""
    key = UserKey(app=value, user=value)

    assert (value, value) == (key.app, key.user)


@pytest.mark.parametrize("padded", ["s", " s", "s\n", "\t s \r\n", "\u2003s"])
def test_padding_around_a_session_id_does_not_count(padded: str) -> None:
    """A session is found, and its artifacts with it, under any padding of its id."""
    keys = SessionKey(app="a", user="u", session=padded), ArtifactScope(app="a", user="u", session=padded)

    assert (
        SessionKey(app="a", user="u", session="s"),
        ArtifactScope(app="a", user="u", session="s"),
    ) == keys


@pytest.mark.parametrize("session", [" .. ", " /x", " C:x", "\t."])
def test_padding_hides_no_bad_session_id(session: str) -> None:
    """What is refused without it is refused with it."""
    with pytest.raises(InvalidInputError, match="session_id"):
        ArtifactScope(app="a", user="u", session=session)


def test_padding_around_other_ids_counts() -> None:
    """App and user ids with padding are other apps and users."""
    key = SessionKey(app=" a ", user=" u ", session="s x")

    assert (" a ", " u ", "s x") == (key.app, key.user, key.session)


@pytest.mark.parametrize("field", TEXT_FIELDS)
@pytest.mark.parametrize(("value", "index"), [("\ud800", 0), ("ok\udfff!", 2)])
def test_half_a_surrogate_pair_is_refused(field: str, value: str, index: int) -> None:
    """What no storage can encode is refused at the edge, naming the field and place only."""
    with pytest.raises(InvalidInputError) as caught:
        TEXT_FIELDS[field](value)

    name = field.split()[1]
    assert f"{name} holds a lone surrogate at index {index}, which Unicode text cannot hold." == str(
        caught.value
    )


@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_an_id_that_is_no_text_is_refused(field: str) -> None:
    """A number in place of an id is a typed error, not a crash deeper down."""
    number: object = 5
    with pytest.raises(InvalidInputError) as caught:
        TEXT_FIELDS[field](number)  # type: ignore[arg-type]  # the mistake under test

    assert f"{field.split()[1]} must be a string, not int." == str(caught.value)


@pytest.mark.parametrize("filename", ["f", "a/b.txt", "User:f", " user:f", "x/user:f", "..", "/f", " "])
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
        (artifact("user"), RESERVED),
        (artifact("user/x"), RESERVED),
        (artifact("user\\x"), RESERVED),
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
