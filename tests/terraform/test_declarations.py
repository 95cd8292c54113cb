"""What the module declares is what the library's code writes, queries and reads, for any prefix."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Bucket, Client
from google.genai import types

from gcp_adk_store import GcsArtifactService, SessionService, Store, StoreSettings
from gcp_adk_store.testing.emulators import Emulator
from tests.support.lengths import at_length
from tests.support.queries import (
    LIMITS,
    Index,
    Queries,
    documented_ends,
    documented_exemptions,
    documented_indexes,
    index_of,
    send_every_query,
)

AS_WHOM = {
    "ADK_STORE_CREDENTIALS_FILE",
    "ADK_STORE_IMPERSONATE",
    "ADK_STORE_QUOTA_PROJECT",
    "GOOGLE_CLOUD_UNIVERSE_DOMAIN",
}
"""Variables for whoever is not where the service account is attached: the module cannot know them."""
OF_ENCRYPTION = {"ADK_STORE_ENCRYPTION_KEY", "ADK_STORE_ENCRYPT_ARTIFACTS", "ADK_STORE_KEYS_DATABASE"}
"""What concerns a store with ``encryption`` alone."""
ORIGIN = "https://app.example.com"
PREFIXES = at_length(("Support-2",), ("adk", "Support-2"))
USER: dict[str, Any] = {"app_name": "app", "user_id": "user"}
SESSION: dict[str, Any] = {**USER, "session_id": "session"}
DAY = timedelta(days=1)
MODULE = "modules/adk_store"

Plans = Callable[..., Mapping[str, Any]]


class Declared:
    """What would be made for one prefix."""

    def __init__(self, plan: Mapping[str, Any], prefix: str) -> None:
        self.prefix = prefix
        self.outputs: Mapping[str, Any] = plan["planned_values"]["outputs"]
        self.outputs_in_plan: Mapping[str, Any] = plan["configuration"]["root_module"]["outputs"]
        self._resources = plan["planned_values"]["root_module"]["resources"]

    def values(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the arguments of each resource of a kind."""
        return [each["values"] for each in self._resources if each["type"] == kind]

    def fields(self, block: str) -> dict[str, list[str]]:
        """Return collections, without the prefix, with the fields that have a block with nothing in it."""
        found: dict[str, list[str]] = {}
        for field in self.values("google_firestore_field"):
            if field[block] and not any(field[block][0].values()):
                start, collection = field["collection"].rsplit("_", 1)
                assert start == self.prefix
                found.setdefault(collection, []).append(field["field"])
        return found

    def indexes(self) -> set[Index]:
        """Return the indexes over several fields."""
        return {
            Index(
                collection=index["collection"],
                fields=tuple(
                    (field["field_path"], (field["order"] or field["array_config"]).lower())
                    for field in index["fields"]
                ),
                scope=index["query_scope"].lower().replace("_", "-"),
            )
            for index in self.values("google_firestore_index")
        }

    def deletes(self, name: str, *, age: timedelta, custom_time: datetime | None) -> bool:
        """Return whether a rule of the bucket deletes such an object, as Cloud Storage reads rules."""
        (bucket,) = self.values("google_storage_bucket")
        return any(
            _matches(rule["condition"][0], name, age=age, custom_time=custom_time)
            for rule in bucket["lifecycle_rule"]
            if rule["action"][0]["type"] == "Delete"
        )


def _matches(
    condition: Mapping[str, Any], name: str, *, age: timedelta, custom_time: datetime | None
) -> bool:
    known = {"age", "days_since_custom_time", "send_days_since_custom_time_if_zero", "matches_prefix"}
    assert {key for key, value in condition.items() if value} <= known, "this test does not know the rule"
    asked = []
    if condition["matches_prefix"]:
        asked.append(name.startswith(tuple(condition["matches_prefix"])))
    if condition["age"]:  # the provider leaves out a 0 unless a setting sends it
        asked.append(age.days >= condition["age"])
    if condition["days_since_custom_time"] or condition["send_days_since_custom_time_if_zero"]:
        days = timedelta(days=condition["days_since_custom_time"])
        asked.append(custom_time is not None and datetime.now(UTC) >= custom_time + days)
    return all(asked)


@pytest.fixture(params=PREFIXES)
def declared(request: pytest.FixtureRequest, plans: Plans) -> Declared:
    """The module's plan for each prefix."""
    variables = {"database": "agents", "cors_origins": [ORIGIN]}
    return Declared(plans(MODULE, prefix=request.param, **variables), request.param)


def test_the_fields_and_the_indexes_are_those_of_the_page(declared: Declared) -> None:
    """Of fields without an index not one more: its queries would fail; not one less: it would be paid for.

    A TTL policy for each collection whose documents end; indexes for pages of an app and by labels, in both
    orders. Firestore has one setting of a field: two resources would undo each other.
    """
    names = [(each["collection"], each["field"]) for each in declared.values("google_firestore_field")]

    assert {name: sorted(fields) for name, fields in documented_exemptions().items()} == {
        name: sorted(fields) for name, fields in declared.fields("index_config").items()
    }
    assert {name: [field] for name, field in documented_ends().items()} == declared.fields("ttl_config")
    assert sorted(set(names)) == sorted(names)
    assert declared.indexes() == documented_indexes(declared.prefix)


async def test_the_indexes_are_those_that_queries_need(
    declared: Declared, connect: Callable[..., SessionService]
) -> None:
    """Of every query that is sent: the emulator needs none, production refuses without."""
    queries = Queries()
    service = connect(prefix=declared.prefix, interceptors=[queries], limits=LIMITS)
    await send_every_query(service)
    needed = {(query.from_[0].collection_id, index_of(query)) for query in queries.sent}
    automatic = {(collection, index) for collection, index in needed if isinstance(index, str)}
    exempt = {(each["collection"], each["field"]) for each in declared.values("google_firestore_field")}

    assert declared.indexes() == {index for _, index in needed if isinstance(index, Index)}
    assert {(f"{declared.prefix}_sessions", "last_update_time")} == automatic
    assert automatic.isdisjoint(exempt)


def test_the_environment_is_what_the_settings_read(declared: Declared) -> None:
    """Every variable that says where in the cloud, with the values of this store; not the fallback."""

    class Asked(Mapping[str, str]):
        def __init__(self) -> None:
            self.names: set[str] = set()

        def __getitem__(self, name: str) -> str:
            self.names.add(name)
            raise KeyError(name)

        def __iter__(self) -> Iterator[str]:
            return iter(())

        def __len__(self) -> int:
            return 0

    asked = Asked()
    StoreSettings.from_env(asked)
    environment = declared.outputs["environment"]["value"]

    assert {*environment} <= asked.names
    others = {"GOOGLE_CLOUD_PROJECT", "ADK_STORE_LOCAL", "ADK_STORE_TELEMETRY_IDS"}
    assert asked.names <= {*environment, *AS_WHOM, *OF_ENCRYPTION, *others}
    assert StoreSettings.from_env(environment) == StoreSettings(
        project="my-project",
        database="agents",
        bucket=f"my-project-{declared.prefix.lower()}",
        prefix=declared.prefix,
    )


def test_every_output_waits_for_the_grants(declared: Declared) -> None:
    """What is made from one would be refused else; the environment waits for fields and indexes too."""
    waits = {name: set(output["depends_on"]) for name, output in declared.outputs_in_plan.items()}

    assert all("time_sleep.iam" in awaited for awaited in waits.values())
    assert {"google_firestore_field.unindexed", "google_firestore_index.pages"} <= waits["environment"]


@pytest.mark.parametrize("expire_artifacts", [True, False])
@pytest.mark.parametrize("prefix", PREFIXES)
async def test_lifecycle_rules_delete_what_has_ended_and_nothing_else(
    firestore_emulator: Emulator,
    adk_store_bucket: str,
    project: str,
    plans: Plans,
    prefix: str,
    expire_artifacts: bool,  # noqa: FBT001
) -> None:
    """Of objects that the store itself wrote."""
    assert firestore_emulator.address
    # With the bucket's headers, the plan of the other tests.
    variables: dict[str, Any] = {"database": "agents", "cors_origins": [ORIGIN]}
    if not expire_artifacts:
        variables["expire_artifacts"] = False
    declared = Declared(plans(MODULE, prefix=prefix, **variables), prefix)
    async with Store.connect(
        project=project, bucket=adk_store_bucket, prefix=prefix, session_limits=LIMITS
    ) as store:
        artifact: dict[str, Any] = {**SESSION, "artifact": types.Part(text="x")}
        await store.sessions.create_session(**SESSION, state={"kept": "x" * 100})
        await store.sessions.create_session(**USER, state={"ends": "y" * 100}, ttl_seconds=60)
        await store.artifacts.save_artifact(**artifact, filename="kept.txt")
        await store.artifacts.save_artifact(**artifact, filename="ends.txt", expires_after=timedelta(hours=1))
        upload = await store.artifacts.create_upload(**SESSION, filename="put.txt")
    bucket = bucket_of(adk_store_bucket)
    bucket.blob(name_in(upload.url, adk_store_bucket)).upload_from_string("put")
    deleted: dict[timedelta, list[str]] = {}
    for days in (0, 2, 1000):
        waited = days * DAY
        deleted[waited] = sorted(
            kind_of(blob)
            for blob in bucket.list_blobs()
            if declared.deletes(
                blob.name,
                age=waited,
                custom_time=None if blob.custom_time is None else blob.custom_time - waited,
            )
        )
    late = ["payload that ends", "upload"] + (["artifact that ends"] if expire_artifacts else [])

    assert [] == deleted[0 * DAY]
    assert sorted(late) == deleted[2 * DAY] == deleted[1000 * DAY]
    assert 5 == len(list(bucket.list_blobs()))


def bucket_of(name: str) -> Bucket:
    """Return a bucket of the emulator."""
    return Client(project="demo", credentials=AnonymousCredentials()).bucket(name)


def name_in(url: str, bucket: str) -> str:
    """Return the name of the object that a signed URL is for."""
    found = re.search(rf"/{bucket}/([^?]+)\?", url)
    assert found is not None
    return found[1]


def kind_of(blob: Any) -> str:
    """Return what an object is, by its custom time and the shape of its name."""
    shapes = {"artifact": r"/\d+$", "payload": "-payloads/", "upload": "uploads/"}
    what = next(kind for kind, shape in shapes.items() if re.search(shape, blob.name))
    return what if blob.custom_time is None else f"{what} that ends"


async def test_web_pages_may_send_the_headers_of_an_upload(declared: Declared, adk_store_bucket: str) -> None:
    """All that a signed upload asks for, from the origins that were named."""
    key = "projects/p/locations/l/keyRings/r/cryptoKeys/k"
    service = GcsArtifactService(adk_store_bucket, kms_key_name=key)
    upload = await service.create_upload(**SESSION, filename="a.png", max_bytes=1000)
    await service.close()
    (bucket,) = declared.values("google_storage_bucket")
    (cors,) = bucket["cors"]

    assert [ORIGIN] == cors["origin"]
    assert "PUT" in cors["method"]
    assert {name.lower() for name in upload.headers} == set(cors["response_header"])
