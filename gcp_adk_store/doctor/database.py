"""Check a Firestore database by the Admin API's answers."""

import shlex
from collections.abc import Sequence
from typing import Any, Final

from gcp_adk_store.codec.indexes import TTL_FIELDS, UNINDEXED_FIELDS, CompositeIndex, page_indexes
from gcp_adk_store.doctor.findings import Body, Facts, Finding, Place, fail, ok, warn

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
    needed = page_indexes(facts.place.prefix)
    states = [(index, _state(index, body.get("indexes", ()))) for index in needed]
    broken = [(index, state) for index, state in states if state not in ("READY", "CREATING")]
    if broken:
        listed = ", ".join(
            f"{_shown(index)} is {'in need of repair' if state == 'NEEDS_REPAIR' else 'missing'}"
            for index, state in broken
        )
        return fail(
            f"{listed}; list_sessions_page by labels, or over all users of an app, fails without",
            *(f"{index.command} {facts.place.of_database}" for index, _ in broken),
            terraform="google_firestore_index of the module adk_store",
        )
    building = ", ".join(_shown(index) for index, state in states if state == "CREATING")
    if building:
        return warn(
            f"{building} is still being built; wait for it",
            f"gcloud firestore indexes composite list {facts.place.of_database}",
        )
    return ok(f"{len(needed)} of {len(needed)} ready")


def _state(index: CompositeIndex, listed: Sequence[Any]) -> str:
    """Return the state of *index* among those *listed*; empty if it is missing."""
    wanted = [(path, order.upper()) for path, order in index.fields]
    scope = index.scope.replace("-", "_").upper()
    for each in listed:
        fields = [
            (field.get("fieldPath"), field.get("order") or field.get("arrayConfig"))
            for field in each.get("fields", ())
        ]
        if (
            each.get("queryScope") == scope
            and f"/collectionGroups/{index.collection}/" in each.get("name", "")
            and [field for field in fields if field[0] != "__name__"] == wanted
        ):
            return str(each.get("state", ""))
    return ""


def _shown(index: CompositeIndex) -> str:
    fields = " and ".join(f"{path} {order}" for path, order in index.fields)
    return f"{index.collection} by {fields}{' of one user' if index.scope == 'collection' else ''}"


def exemptions(body: Body, facts: Facts) -> Finding:
    """Check the fields that should not be indexed, and the field that must be."""
    fields, of_database = body.get("fields", ()), facts.place.of_database
    group, name = f"{facts.place.prefix}_{_PAGED[0]}", _PAGED[1]
    if not _is_ordered(fields, group, name):
        return fail(
            f"{name} of {group} is exempt: list_sessions_page of a user fails",
            f"gcloud firestore indexes fields update {name} --collection-group={group} --clear-exemption "
            f"{of_database}",
            terraform=f'google_firestore_field: remove the one with field = "{name}"',
        )
    unused = [
        (f"{facts.place.prefix}_{collection}", name)
        for collection, names in UNINDEXED_FIELDS.items()
        for name in names
    ]
    indexed = [(group, name) for group, name in unused if _is_indexed(fields, group, name)]
    if indexed:
        listed = ", ".join(f"{group}.{name}" for group, name in indexed)
        return warn(
            f"indexed without use: {listed}; each write pays for it, and large state can exceed "
            "40,000 entries",
            *(
                f"gcloud firestore indexes fields update {name} --disable-indexes "
                f"--collection-group={group} {of_database}"
                for group, name in indexed
            ),
            terraform="google_firestore_field: index_config {}",
        )
    return ok(f"{len(unused)} of {len(unused)} fields are not indexed")


def time_to_live(body: Body, facts: Facts) -> Finding:
    """Check the TTL policies."""
    fields = body.get("fields", ())
    groups = {f"{facts.place.prefix}_{collection}": name for collection, name in TTL_FIELDS.items()}
    states = {group: (name, _ttl_state(fields, group, name)) for group, name in groups.items()}
    wrong = {group: each for group, each in states.items() if each[1] not in ("ACTIVE", "CREATING")}
    if wrong:
        listed = ", ".join(f"{group} ({state or 'not set'})" for group, (_, state) in wrong.items())
        return warn(
            f"not active for {listed}: sessions that have ended are not found, and stay and are paid for",
            *(
                f"gcloud firestore fields ttls update {name} --enable-ttl --collection-group={group} "
                f"{facts.place.of_database}"
                for group, (name, _) in wrong.items()
            ),
            terraform="google_firestore_field: ttl_config {}",
        )
    building = [group for group, (_, state) in states.items() if state == "CREATING"]
    if building:
        return warn(
            f"still being applied to {', '.join(building)}; wait for it",
            f"gcloud firestore fields ttls list {facts.place.of_database}",
        )
    return ok(f"active for {', '.join(states)}")


def _is_indexed(fields: Sequence[Any], group: str, name: str) -> bool:
    """Return whether Firestore indexes the field, which is its default."""
    config = _index_config(fields, group, name)
    return config is None or bool(config.get("indexes"))


def _is_ordered(fields: Sequence[Any], group: str, name: str) -> bool:
    """Return whether a query can order documents of one parent by the field, in both directions."""
    config = _index_config(fields, group, name)
    if config is None:
        return True
    orders = {
        field.get("order")
        for index in config.get("indexes", ())
        if index.get("queryScope") == "COLLECTION" and index.get("state", "READY") == "READY"
        for field in index.get("fields", ())
    }
    return {"ASCENDING", "DESCENDING"} <= orders


def _ttl_state(fields: Sequence[Any], group: str, name: str) -> str | None:
    config = _config("ttlConfig", fields, group, name)
    return None if config is None else str(config.get("state", "STATE_UNSPECIFIED"))


def _index_config(fields: Sequence[Any], group: str, name: str) -> Any:
    for of, field in ((group, name), (group, "*"), ("__default__", "*")):
        config = _config("indexConfig", fields, of, field)
        if config is not None and not config.get("usesAncestorConfig"):
            # A new database indexes all fields.
            return None if of == "__default__" and config.get("indexes") else config
    return None


def _config(kind: str, fields: Sequence[Any], group: str, name: str) -> Any:
    """Return a configuration of its own of a field among *fields*; ``None`` without one."""
    ending = f"/collectionGroups/{group}/fields/{name}"
    return next((field.get(kind) for field in fields if field.get("name", "").endswith(ending)), None)
