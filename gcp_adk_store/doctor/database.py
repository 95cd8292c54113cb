"""Check a Firestore database by the Admin API's answers."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gcp_adk_store.codec.indexes import TTL_FIELDS, UNINDEXED_FIELDS, CompositeIndex, page_index
from gcp_adk_store.doctor.facts import Body, Facts, Place
from gcp_adk_store.doctor.findings import Finding, fail, ok, warn

_PAGED: Final = ("sessions", "last_update_time")
"""The field whose automatic indexes the pages of a user's sessions need."""


def missing(place: Place) -> Finding:
    """Name the missing database."""
    return fail(
        f"{place.database_path} does not exist",
        f"gcloud firestore databases create {place.of_database} --location=LOCATION --type=firestore-native",
        terraform='google_firestore_database: type = "FIRESTORE_NATIVE"',
    )


def database(body: Body, facts: Facts) -> Finding:
    """Check mode and location."""
    location = body.get("locationId", "an unknown location")
    mode = body.get("type")
    if mode != "FIRESTORE_NATIVE":
        return fail(
            f"{facts.place.database} in {location} is of the type {mode}; a store needs FIRESTORE_NATIVE",
            "gcloud firestore databases create --database=NEW --type=firestore-native "
            f"--location={shlex.quote(location)} --project={facts.place.project}",
            terraform='google_firestore_database: type = "FIRESTORE_NATIVE"',
        )
    if body.get("databaseEdition") == "ENTERPRISE":
        return warn(
            f"{facts.place.database} in {location} is of the Enterprise edition, which indexes nothing by "
            "itself and which this release was not made for: use the Standard edition",
        )
    return ok(f"{facts.place.database} in {location}, native mode")


def recovery(body: Body, facts: Facts) -> Finding:
    """Check point-in-time recovery."""
    if body.get("pointInTimeRecoveryEnablement") == "POINT_IN_TIME_RECOVERY_ENABLED":
        return ok("on: the last seven days can be read back")
    return warn(
        "off: what is overwritten or deleted by mistake is gone after an hour",
        f"gcloud firestore databases update {facts.place.of_database} --enable-pitr",
        terraform=(
            'google_firestore_database: point_in_time_recovery_enablement = "POINT_IN_TIME_RECOVERY_ENABLED"'
        ),
    )


def protection(body: Body, facts: Facts) -> Finding:
    """Check delete protection."""
    if body.get("deleteProtectionState") == "DELETE_PROTECTION_ENABLED":
        return ok("on")
    return warn(
        "off: one command deletes the database with all sessions",
        f"gcloud firestore databases update {facts.place.of_database} --delete-protection",
        terraform='google_firestore_database: delete_protection_state = "DELETE_PROTECTION_ENABLED"',
    )


def indexes(body: Body, facts: Facts) -> Finding:
    """Check the composite indexes that queries need."""
    states = {key: state for key, state in map(_composite, body.get("indexes", ())) if key}
    needed = [page_index(facts.place.prefix, descending=descending) for descending in (True, False)]
    broken = [index for index in needed if states.get(_key(index)) not in ("READY", "CREATING")]
    if broken:
        told = ", ".join(f"{_shown(index)} is {_state(states, index)}" for index in broken)
        return fail(
            f"{told}; list_sessions_page over all users of an app fails without",
            *(f"{index.command} {facts.place.of_database}" for index in broken),
            terraform="google_firestore_index of the module adk_store",
        )
    building = [index for index in needed if states.get(_key(index)) == "CREATING"]
    if building:
        told = ", ".join(_shown(index) for index in building)
        return warn(
            f"{told} is still being built; wait for it",
            f"gcloud firestore indexes composite list {facts.place.of_database}",
        )
    return ok(f"{len(needed)} of {len(needed)} ready")


def exemptions(body: Body, facts: Facts) -> Finding:
    """Check the fields that should not be indexed, and the field that must be."""
    prefix = facts.place.prefix
    fields = _Fields(body.get("fields", ()), prefix)
    collection, name = _PAGED
    if not fields.is_ordered(collection, name):
        return fail(
            f"{name} of {prefix}_{collection} is exempt: list_sessions_page of a user fails",
            f"gcloud firestore indexes fields update {name} --collection-group={prefix}_{collection} "
            f"--clear-exemption {facts.place.of_database}",
            terraform=f'google_firestore_field: remove the one with field = "{name}"',
        )
    indexed = [
        (collection, field)
        for collection, names in UNINDEXED_FIELDS.items()
        for field in names
        if fields.is_indexed(collection, field)
    ]
    if indexed:
        told = ", ".join(f"{prefix}_{collection}.{field}" for collection, field in indexed)
        return warn(
            f"indexed without use: {told}; each write pays for it, and large state can exceed 40,000 entries",
            *(
                f"gcloud firestore indexes fields update {field} --disable-indexes "
                f"--collection-group={prefix}_{collection} {facts.place.of_database}"
                for collection, field in indexed
            ),
            terraform="google_firestore_field: index_config {}",
        )
    number = sum(len(names) for names in UNINDEXED_FIELDS.values())
    return ok(f"{number} of {number} fields are not indexed")


def time_to_live(body: Body, facts: Facts) -> Finding:
    """Check the TTL policies."""
    fields = _Fields(body.get("fields", ()), facts.place.prefix)
    states = {collection: fields.ttl_state(collection, name) for collection, name in TTL_FIELDS.items()}
    wrong = [name for name, state in states.items() if state not in ("ACTIVE", "CREATING")]
    if wrong:
        told = ", ".join(
            f"{facts.place.prefix}_{name} ({'not set' if states[name] is None else states[name]})"
            for name in wrong
        )
        return warn(
            f"not active for {told}: sessions that have ended are not found, and stay and are paid for",
            *(
                f"gcloud firestore fields ttls update {TTL_FIELDS[name]} --enable-ttl "
                f"--collection-group={facts.place.prefix}_{name} {facts.place.of_database}"
                for name in wrong
            ),
            terraform="google_firestore_field: ttl_config {}",
        )
    building = [f"{facts.place.prefix}_{name}" for name, state in states.items() if state == "CREATING"]
    if building:
        return warn(
            f"still being applied to {', '.join(building)}; wait for it",
            f"gcloud firestore fields ttls list {facts.place.of_database}",
        )
    return ok(f"active for {', '.join(f'{facts.place.prefix}_{name}' for name in states)}")


@dataclass(frozen=True, slots=True)
class _Fields:
    """The fields that have a configuration of their own."""

    listed: Sequence[Any]
    prefix: str

    def is_indexed(self, collection: str, name: str) -> bool:
        """Return whether Firestore indexes the field, which is its default."""
        config = self._index_config(collection, name)
        return config is None or bool(config.get("indexes"))

    def is_ordered(self, collection: str, name: str) -> bool:
        """Return whether a query can order documents of one parent by the field, in both directions."""
        config = self._index_config(collection, name)
        if config is None:
            return True
        orders = {
            field.get("order")
            for index in config.get("indexes", ())
            if index.get("queryScope") == "COLLECTION" and index.get("state", "READY") == "READY"
            for field in index.get("fields", ())
        }
        return {"ASCENDING", "DESCENDING"} <= orders

    def ttl_state(self, collection: str, name: str) -> str | None:
        """Return the state of the field's TTL policy, ``None`` without one."""
        found = self._field(f"{self.prefix}_{collection}", name)
        config = None if found is None else found.get("ttlConfig")
        return None if config is None else str(config.get("state", "STATE_UNSPECIFIED"))

    def _index_config(self, collection: str, name: str) -> Any:
        group = f"{self.prefix}_{collection}"
        for of, field in ((group, name), (group, "*"), ("__default__", "*")):
            found = self._field(of, field)
            config = None if found is None else found.get("indexConfig")
            if config is not None and not config.get("usesAncestorConfig"):
                # A new database indexes all fields.
                return None if of == "__default__" and config.get("indexes") else config
        return None

    def _field(self, group: str, name: str) -> Any:
        ending = f"/collectionGroups/{group}/fields/{name}"
        return next((field for field in self.listed if field.get("name", "").endswith(ending)), None)


_Key = tuple[str, tuple[tuple[str, str], ...]]


def _composite(index: Any) -> tuple[_Key | None, str]:
    if index.get("queryScope") != "COLLECTION_GROUP":
        return None, ""
    group = index.get("name", "").partition("/collectionGroups/")[2].partition("/")[0]
    fields = tuple(
        (field.get("fieldPath", ""), field.get("order", ""))
        for field in index.get("fields", ())
        if field.get("fieldPath") != "__name__"
    )
    return (group, fields), str(index.get("state", ""))


def _key(index: CompositeIndex) -> _Key:
    return index.collection, tuple((path, order.upper()) for path, order in index.fields)


def _shown(index: CompositeIndex) -> str:
    return f"{index.collection} by {' and '.join(f'{path} {order}' for path, order in index.fields)}"


def _state(states: dict[_Key, str], index: CompositeIndex) -> str:
    return {"NEEDS_REPAIR": "in need of repair"}.get(states.get(_key(index), ""), "missing")
