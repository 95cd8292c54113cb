"""Decide what is wrong with what a session says of its restores, its origin, its title and its labels."""

import re
from typing import Final

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.fsck.faults import Fault
from gcp_adk_store.fsck.sessions import Header
from gcp_adk_store.model.session_info import Description

_RESTORE_ID: Final = re.compile(r"[0-9a-f]{32}")


def lineage_faults(header: Header) -> list[Fault]:
    """Return what contradicts itself in the fields that restores, forks and descriptions write."""
    return [*_restored(header), *_origin(header), *_described(header)]


def _restored(header: Header) -> list[Fault]:
    restores, restore_id = header.stored.restores, header.raw.get("restore_id")
    found = []
    # Each restore takes the number that the tail had.
    if restores > len(header.cut) or bool(restores) != bool(header.cut):
        says = f"is {restores}, and {len(header.cut)} numbers of segments are cut off"
        found.append(header.fault("FSCK114", "restores", says))
    is_id = isinstance(restore_id, str) and _RESTORE_ID.fullmatch(restore_id) is not None
    if is_id != bool(restores) or (restore_id is not None and not is_id):
        says = "is not the id of a restore" if restores else "is set, and the session was not restored"
        found.append(header.fault("FSCK114", "restore_id", says))
    return found


def _origin(header: Header) -> list[Fault]:
    stored = header.stored
    origin = stored.origin
    if origin is None:
        return []
    found = []
    if origin.app != stored.key.app:
        found.append(header.fault("FSCK115", "origin.app", "is another app"))
    if not origin.session:
        found.append(header.fault("FSCK115", "origin.session", "is empty"))
    if not origin.epoch or origin.epoch == stored.epoch:
        found.append(header.fault("FSCK115", "origin.epoch", "is empty, or that of the fork itself"))
    if origin.position > stored.revision and not header.restored:
        says = f"is {origin.position}, rev is {stored.revision}"
        found.append(header.fault("FSCK115", "origin.position", says))
    return found


def _described(header: Header) -> list[Fault]:
    found = []
    for name in ("title", "labels"):
        value = header.raw.get(name, ...)
        try:
            Description(title=value if name == "title" else ..., labels=value if name == "labels" else ...)
            is_right = value is not None
        except InvalidInputError:
            is_right = False
        if not is_right:
            found.append(header.fault("FSCK116", name, "breaks the limits of update_session_info"))
    return found
