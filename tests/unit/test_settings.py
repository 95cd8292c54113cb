"""Show what settings accept and read; every way to make a store refuses options that it would not use."""

import logging
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.firestore import AsyncClient

from gcp_adk_store import (
    ArtifactLimits,
    FirestoreSessionService,
    InvalidInputError,
    KmsEnvelope,
    MemoryLimits,
    MemoryService,
    SessionLimits,
    SessionService,
    Store,
    StoreSettings,
    settings,
)
from gcp_adk_store.adk_server import artifact_service, memory_service, session_service, task_store
from tests.support.logs import of_ours
from tests.support.methods import options_of


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


@pytest.mark.parametrize("uri", ["firestore+local:///data/store", "GS://bucket", "file:///data/store"])
def test_a_uri_in_place_of_a_folder_is_refused(uri: str, elsewhere: Path) -> None:
    """ADK's servers take one; a folder of that name would be another store."""
    with pytest.raises(InvalidInputError, match="must be the path of a folder, or ':memory:', and no URI"):
        Store.local(uri)

    assert [] == [*elsewhere.iterdir()]


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


@pytest.mark.parametrize("other", ["ADK_STORE_PROJECT", "ADK_STORE_BUCKET"])
def test_variables_of_two_stores_are_named(other: str) -> None:
    """One may have stayed set from another shell's work."""
    with pytest.raises(InvalidInputError, match=f"pass only one kind, .* ADK_STORE_LOCAL, or .*{other}"):
        StoreSettings.from_env({"ADK_STORE_LOCAL": "store", other: "bucket"})


def test_telemetry_names_users_only_by_a_variable_that_says_so() -> None:
    """One that is neither true nor false counted as false."""
    with pytest.raises(InvalidInputError, match=r"^ADK_STORE_TELEMETRY_IDS is 'maybe', it must be true"):
        StoreSettings.from_env({"ADK_STORE_TELEMETRY_IDS": "maybe"})


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


ROOT = Path(__file__).parents[2]

MISSPELT = {
    "redactor": "redactors",
    "default_ttl_second": "default_ttl_seconds",
    "encrypton": "encryption",
    "durabilty": "durability",
    "on_conflit": "on_conflict",
    "on_missing_payloads": "on_missing_payload",
}


PLACE = {"project", "database", "bucket", "prefix", "credentials", "impersonate_service_account"}
"""What leads ``Store.connect`` to a store."""


def lent() -> AsyncClient:
    """Return a client that is never used."""
    return AsyncClient(project="p", credentials=AnonymousCredentials())


def a_store() -> Store:
    """Return a store that writes nothing before its first call."""
    return Store.local(":memory:")


WAYS: Mapping[str, Callable[..., object]] = {
    "Store.connect": Store.connect,
    "Store.local": lambda **given: Store.local("never-made", **given),
    "Store.from_env": Store.from_env,
    "Store.from_settings": lambda **given: Store.from_settings(StoreSettings(), **given),
    "Store.from_clients": lambda **given: Store.from_clients(firestore=lent(), **given),
    "FirestoreSessionService": FirestoreSessionService,
    "SessionService": lambda **given: SessionService(a_store().sessions.storage, **given),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in an empty folder, which stays empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MISSPELT)
@pytest.mark.parametrize("way", WAYS)
def test_an_unknown_option_is_refused_with_the_nearest_name(way: str, name: str, elsewhere: Path) -> None:
    """Before anything is opened or written."""
    with pytest.raises(InvalidInputError) as caught:
        WAYS[way](**{name: "x"})

    assert f"{way}: unknown option {name!r}; did you mean {MISSPELT[name]!r}?" == str(caught.value)
    assert [] == [*elsewhere.iterdir()]


@pytest.mark.parametrize(
    ("way", "name", "says"),
    [
        ("Store.local", "bucket", "Store.connect, Store.from_clients take it"),
        ("Store.local", "project", "Store.connect takes it"),
        ("Store.local", "credentials", "Store.connect, Store.from_env, Store.from_settings take it"),
        ("Store.connect", "path", "Store.local takes it"),
        ("Store.connect", "firestore", "Store.from_clients takes it"),
        ("Store.from_env", "bucket", "Store.connect, Store.from_clients take it"),
        ("Store.from_env", "path", "Store.local takes it"),
        ("Store.from_settings", "prefix", "Store.connect, Store.local, Store.from_clients take it"),
        ("Store.from_clients", "project", "Store.connect takes it"),
    ],
)
def test_an_option_of_another_way_in_is_refused_with_that_way(way: str, name: str, says: str) -> None:
    """A bucket, say, is none of a folder's."""
    with pytest.raises(InvalidInputError) as caught:
        WAYS[way](**{name: "x"})

    assert f"{way} does not take the option {name!r}; {says}" == str(caught.value)


@pytest.mark.parametrize(
    "name",
    sorted({*options_of(Store.connect)} - PLACE - {*options_of(Store)}),
    ids="option {}".format,
)
def test_a_store_of_given_services_refuses_their_options(name: str) -> None:
    """The services were made without them: a redactor, say, would see no text."""
    given: Any = {name: None}
    with pytest.raises(
        InvalidInputError, match=rf"^Store does not take the option '{name}'; Store\.connect, "
    ):
        Store(sessions=a_store().sessions, artifacts=None, **given)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (SessionLimits, "did you mean 'rpc_timeout_s'?"),
        (partial(replace, SessionLimits()), "did you mean 'rpc_timeout_s'?"),
        (ArtifactLimits, "did you mean 'request_timeout_s'?"),
        (MemoryLimits, "did you mean 'embed_timeout_s'?"),
        (StoreSettings, "the known ones are"),
        (partial(KmsEnvelope, key="k"), "the known ones are"),
    ],
)
def test_settings_and_limits_refuse_unknown_fields(made: Callable[..., object], says: str) -> None:
    """Also a copy with changes."""
    with pytest.raises(InvalidInputError) as caught:
        made(rpc_timeout=1)

    assert re.match(rf"\w+: unknown option 'rpc_timeout'; {re.escape(says)}", str(caught.value))


@pytest.mark.parametrize("limits", [{}, 0, SessionLimits, "small", {"deadline_s": 1}])
def test_limits_of_another_kind_are_refused(limits: Any) -> None:
    """An empty dictionary is no default either."""
    message = "limits must be an? (Session|Artifact|Memory)Limits or None, not "
    for make in (
        lambda: Store.connect(session_limits=limits),
        lambda: Store.local(":memory:", session_limits=limits),
        lambda: Store.local(":memory:", artifact_limits=limits),
        lambda: Store.connect(bucket="a-bucket", artifact_limits=limits),
        lambda: Store.local(":memory:", memory_limits=limits),
        lambda: FirestoreSessionService(limits=limits),
        lambda: MemoryService(a_store().sessions.storage, limits=limits),
    ):
        with pytest.raises(InvalidInputError, match=message):
            make()


@pytest.mark.parametrize(
    ("make", "options", "says"),
    [
        (session_service, {"redactor": []}, "unknown option 'redactor'; did you mean 'redactors'?"),
        (
            session_service,
            {"bucket": "a-bucket"},
            "Store.local does not take the option 'bucket'; Store.conn",
        ),
        (session_service, {"interceptors": ()}, "Store.local: unknown option 'interceptors'; "),
        (artifact_service, {"storage_class": "NEARLINE"}, "Store.local: unknown option 'storage_class'; "),
        (memory_service, {"bucket": "a-bucket"}, "Store.local does not take the option 'bucket'; Store.conn"),
        (task_store, {"database": "data"}, "Store.local does not take the option 'database'; Store.connect"),
    ],
)
def test_a_service_of_a_uri_refuses_options_that_its_place_does_not_have(
    make: Callable[..., object], options: dict[str, Any], says: str, elsewhere: Path
) -> None:
    """Options of a cloud store do not vanish in a folder."""
    scheme = "gs+local" if make is artifact_service else "firestore+local"
    with pytest.raises(InvalidInputError, match=re.escape(says)):
        make(f"{scheme}://{elsewhere}/never-made", **options)

    assert [] == [*elsewhere.iterdir()]


def test_an_unknown_variable_is_logged_once_with_the_nearest_name(caplog: pytest.LogCaptureFixture) -> None:
    """Its value, which may be a secret, is not."""
    anew = uuid.uuid4().hex[:3].upper()  # a process warns of each name once
    misspelt, strange = f"ADK_STORE_LOCAL{anew}", f"ADK_STORE_X1{anew * 9}"
    env = {misspelt: "content", "ADK_STORE_PREFIX": "a", "OTHER_LOCLA": "x", strange: "y"}
    with caplog.at_level(logging.WARNING):
        StoreSettings.from_env(env)
        StoreSettings.from_env(env)

    near, far = sorted(record.getMessage() for record in caplog.records)
    assert f"nothing reads the environment variable {misspelt!r}; did you mean 'ADK_STORE_LOCAL'?" == near
    assert far.startswith(f"nothing reads the environment variable {strange!r}; ")
    assert "content" not in caplog.text


def test_variables_that_the_project_itself_reads_are_known(caplog: pytest.LogCaptureFixture) -> None:
    """Those of its library, its set-up and its release: nobody is warned of them."""
    read = set()
    for folder in ("gcp_adk_store", "tools/setup", "terraform", ".github", "docs", "examples", "emulators"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and path.suffix in {".py", ".yml", ".yaml", ".tf", ".md", ".txt"}:
                read |= set(re.findall(r"\bADK_STORE_[A-Z_]*[A-Z]", path.read_text()))
    for name in ("Makefile", "tools/hatch_build.py", "README.md"):
        read |= set(re.findall(r"\bADK_STORE_[A-Z_]*[A-Z]", (ROOT / name).read_text()))
    with caplog.at_level(logging.WARNING):
        StoreSettings.from_env(dict.fromkeys(read, ""))

    assert "ADK_STORE_BUCKET" in read
    assert [] == of_ours(caplog)
