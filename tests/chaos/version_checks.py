"""Compare what workers got as answers about artifacts with the objects that there are."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.chaos.journal import Operation
from tests.chaos.places import APP, USER
from tests.chaos.raw_store import RawStore
from tests.chaos.verdict import DUPLICATED, LOST, Violation


def check_versions(store: RawStore, operations: Sequence[Operation]) -> Iterator[Violation]:
    """Each acknowledged save under its number with its bytes, each save once, no number left out."""
    versions = _versions(store)
    saves = [operation for operation in operations if operation.kind == "save"]
    for save in saves:
        yield from _check_save(save, versions[save.intent["artifact"]])
    counts = Counter(
        (save.intent["artifact"], save.result["version"]) for save in saves if "version" in save.result
    )
    yield from (
        Violation("shared number", f"version {number} of {artifact}")
        for (artifact, number), count in counts.items()
        if count > 1
    )
    sent = {(save.intent["artifact"], save.intent["digest"]) for save in saves}
    for artifact, digests in versions.items():
        if set(digests) != set(range(len(digests))):
            yield Violation("gap between versions", artifact)
        yield from (
            Violation("never sent", f"version {number} of {artifact}")
            for number, digest in digests.items()
            if (artifact, digest) not in sent
        )


def _versions(store: RawStore) -> Mapping[str, dict[int, str]]:
    """Return the digests of all versions by artifact and number."""
    versions: dict[str, dict[int, str]] = defaultdict(dict)
    for name, stored in store.objects.items():
        if "-payloads/" not in name:
            artifact, _, number = name.removeprefix(f"{APP}/{USER}/").rpartition("/")
            versions[artifact][int(number)] = stored.sha256
    return versions


def _check_save(save: Operation, digests: Mapping[int, str]) -> Iterator[Violation]:
    artifact, digest = save.intent["artifact"], save.intent["digest"]
    held = [number for number, sha256 in digests.items() if sha256 == digest]
    if save.outcome == "acknowledged":
        number = save.result["version"]
        if digests.get(number) != digest:
            kind = "other bytes" if number in digests else LOST
            yield Violation(kind, f"version {number} of {artifact}")
    if len(held) > 1:
        yield Violation(DUPLICATED, f"versions {held} of {artifact}")
    if held and save.outcome == "refused":
        yield Violation("refused but stored", f"version {held[0]} of {artifact}")
