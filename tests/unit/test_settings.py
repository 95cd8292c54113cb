"""Show what settings accept, and what they read of the environment."""

from collections.abc import Callable

import pytest

from gcp_adk_store import InvalidInputError, Store, StoreSettings, settings


@pytest.mark.parametrize(
    "prefix", ["", "7a", "-a", "a_b", "a/b", "a.b", "a b", "ä", "a\n", "a" * 33, "__a__"]
)
def test_a_prefix_that_cannot_name_collections_is_refused(prefix: str) -> None:
    """A prefix that would break a path or meet another store's is refused when it is set."""
    with pytest.raises(InvalidInputError, match="must be 1 to 32 letters") as caught:
        StoreSettings(prefix=prefix)

    assert str(caught.value).startswith(f"prefix {prefix!r}")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("project", ""),
        ("project", "My Project!"),
        ("database", ""),
        ("database", "a/b"),
        ("bucket", ""),
        ("bucket", "gs://b"),
        ("bucket", " my-bucket"),
    ],
)
def test_what_cannot_be_a_name_is_refused(field: str, value: str) -> None:
    """By every way to a store; an empty name is a mistake, not a way to say "default"."""
    for build in (StoreSettings, Store.connect):
        with pytest.raises(InvalidInputError) as caught:
            build(**{field: value})  # type: ignore[arg-type]  # one string setting at a time
        assert str(caught.value).startswith(f"{field} {value!r} must be ")


@pytest.mark.parametrize("path", ["", "a\0b", "a\ud800b", "a\udfff"])
def test_a_path_that_no_system_has_is_refused(path: str) -> None:
    """Before a call of the system raises an error of Python."""
    with pytest.raises(InvalidInputError, match="must be the path of a folder"):
        StoreSettings(local=path)
    with pytest.raises(InvalidInputError, match="must be a path"):
        StoreSettings(credentials_file=path)


def test_a_path_may_have_bytes_that_are_no_utf_8() -> None:
    """Python gives them so in variables and arguments."""
    assert "a\udc80" == StoreSettings(local="a\udc80").local


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, StoreSettings(project=None, database="(default)", bucket=None, prefix="adk")),
        (
            {
                "ADK_STORE_PROJECT": "p",
                "ADK_STORE_DATABASE": "data",
                "ADK_STORE_BUCKET": "bucket",
                "ADK_STORE_PREFIX": "x",
            },
            StoreSettings(project="p", database="data", bucket="bucket", prefix="x"),
        ),
        (
            {
                "ADK_STORE_PROJECT": "",
                "ADK_STORE_DATABASE": "",
                "ADK_STORE_BUCKET": "",
                "ADK_STORE_PREFIX": "",
            },
            StoreSettings(),
        ),
        ({"GOOGLE_CLOUD_PROJECT": "g"}, StoreSettings(project="g")),
        (
            {
                "ADK_STORE_CREDENTIALS_FILE": "key.json",
                "ADK_STORE_IMPERSONATE": "a@p.iam.gserviceaccount.com",
                "ADK_STORE_QUOTA_PROJECT": "q",
                "GOOGLE_CLOUD_UNIVERSE_DOMAIN": "example.test",
            },
            StoreSettings(
                credentials_file="key.json",
                impersonate_service_account="a@p.iam.gserviceaccount.com",
                quota_project="q",
                universe_domain="example.test",
            ),
        ),
        ({"GOOGLE_CLOUD_PROJECT": "g", "ADK_STORE_PROJECT": "p"}, StoreSettings(project="p")),
        ({"GOOGLE_CLOUD_PROJECT": "g", "ADK_STORE_PROJECT": ""}, StoreSettings(project="g")),
    ],
)
def test_settings_come_from_the_environment(environ: dict[str, str], expected: StoreSettings) -> None:
    """Set variables win, empty ones mean the default, the project falls back to Google's own variable."""
    assert expected == StoreSettings.from_env(environ)


@pytest.mark.parametrize("value", [None, "", "here:1"])
@pytest.mark.parametrize(
    ("variable", "read"),
    [
        ("FIRESTORE_EMULATOR_HOST", settings.firestore_emulator_host),
        ("STORAGE_EMULATOR_HOST", settings.storage_emulator_url),
        ("GOOGLE_CLOUD_PROJECT", settings.default_project),
        ("GOOGLE_CLOUD_UNIVERSE_DOMAIN", settings.universe_domain),
    ],
)
def test_an_empty_variable_is_an_unset_one(
    monkeypatch: pytest.MonkeyPatch, variable: str, read: Callable[[], str | None], value: str | None
) -> None:
    """Emulators and project count only where their variable holds something."""
    monkeypatch.delenv(variable, raising=False)
    if value is not None:
        monkeypatch.setenv(variable, value)

    assert (value or None) == read()


@pytest.mark.parametrize(
    ("variable", "read", "values"),
    [
        (
            "FIRESTORE_EMULATOR_HOST",
            settings.firestore_emulator_host,
            ["localhost", "http://", "here:", "a b:1"],
        ),
        (
            "STORAGE_EMULATOR_HOST",
            settings.storage_emulator_url,
            ["http://", "ftp://here:1", "here:port", " "],
        ),
    ],
)
def test_a_malformed_address_of_an_emulator_is_never_taken_for_google_cloud(
    monkeypatch: pytest.MonkeyPatch, variable: str, read: Callable[[], str | None], values: list[str]
) -> None:
    """What a test writes must not reach production by a slip of the pen."""
    for value in values:
        monkeypatch.setenv(variable, value)
        with pytest.raises(InvalidInputError, match=f"^{variable} is "):
            read()


@pytest.mark.parametrize("value", ["http://here:1/", "[::1]:8080", "emulator.svc:80"])
def test_the_address_of_firestores_emulator_is_read_in_the_ways_that_people_write_it(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    """A scheme and a slash at the end are left out."""
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", value)

    assert value.removeprefix("http://").rstrip("/") == settings.firestore_emulator_host()
