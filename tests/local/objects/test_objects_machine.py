"""Send random calls to local objects and to those of the storage emulator, and compare what they say."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from gcp_adk_store import ArtifactLimits, StoreError
from gcp_adk_store.cloud.storage.calls import StorageCalls
from gcp_adk_store.cloud.storage.objects import Objects as CloudObjects
from gcp_adk_store.cloud.storage.resumable import ResumableUploads
from gcp_adk_store.codec.objects import MAX_METADATA_BYTES, ObjectFields, ScannedObject, StoredObject
from gcp_adk_store.kernel.ports import Objects, RefusedError, Uploads
from tests.local.objects.conftest import kept_at
from tests.support.lengths import at_length

T = TypeVar("T")

BOUNDS = settings(
    max_examples=at_length(2, 20),
    stateful_step_count=40,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

ACCEPTED = st.sampled_from(
    [
        *("a", "A", "a/1", "a/1/2", "a/10", "a/2", "a/", "a//1", "a/../1", "%2F", "b\0"),
        *("é", "🙂", "\uffff", "ü" * 500),
    ]
)
NAMES = ACCEPTED | st.sampled_from(["", ".", "..", "a\nb", "x" * 1024, ".well-known/acme-challenge/x"])


class TooLarge(dict[str, str]):
    """Metadata that no object may have, shown in a few words."""

    def __init__(self) -> None:
        super().__init__(k="x" * MAX_METADATA_BYTES)

    def __repr__(self) -> str:
        return "TooLarge()"


PREFIXES = st.sampled_from(["", "a", "a/", "a/1", "b", "é", "🙂", "\uffff", "c"])
DELIMITERS = st.sampled_from([None, "", "/", "1", "a/"])
METADATA = st.one_of(
    st.dictionaries(st.sampled_from(["k", "ü", "K", ""]), st.sampled_from(["", "v", "ü 日本"]), max_size=2),
    st.builds(TooLarge),
)
TIMES = st.integers(0, 3).map(lambda days: datetime(2030, 1, 1, 0, 0, 0, 1, UTC) + timedelta(days=days))
FIELDS = st.builds(
    ObjectFields,
    content_type=st.sampled_from(["text/plain", "image/png", "application/octet-stream", "audio/pcm;rate=1"]),
    metadata=METADATA,
    custom_time=st.none() | TIMES,
)
CHOICE = st.integers(0, 2**16)


@dataclass(frozen=True, slots=True)
class Side:
    """One backend."""

    objects: Objects
    uploads: Uploads


def shown(result: Any) -> Any:
    """Return what both sides must have in common of a result."""
    match result:
        case StoredObject():
            return (
                (result.name, result.content_type, result.metadata, result.size, result.content_encoding),
                (result.crc32c, result.md5),
            )
        case ScannedObject():
            return result.name, result.version.partition("/")[2], result.size, result.metadata
        case (bytes() as data, int()):
            return data
        case list():
            return [shown(each) for each in result]
        case _:
            return result


class ObjectsMachine(RuleBasedStateMachine):
    """Two backends that are to be alike; the first is Cloud Storage."""

    def __init__(self, sides: Sequence[Side], runner: asyncio.Runner, folder: str) -> None:
        super().__init__()
        self.sides = sides
        self.runner = runner
        self.folder = folder
        self.stored: list[list[StoredObject]] = []
        self.scanned: list[list[ScannedObject]] = []

    def both(self, call: Callable[[Side, int], Coroutine[Any, Any, T]]) -> list[T] | None:
        """Return what *call* returns for each side and its number; ``None`` if both refuse it alike."""
        results: list[T] = []
        outcomes: list[tuple[type | None, Any]] = []
        for number, side in enumerate(self.sides):
            try:
                results.append(self.runner.run(call(side, number)))
            except (StoreError, RefusedError) as exc:
                outcomes.append((type(exc), getattr(exc, "maybe_applied", None)))
            else:
                outcomes.append((None, shown(results[-1])))
        cloud, local = outcomes
        assert cloud == local
        return results or None

    def named(self, name: str) -> str:
        """Return a name in the folder of this run; one that is refused stays as it is."""
        is_refused_alone = name in {"", ".", ".."} or name.startswith(".well-known")
        return name if is_refused_alone else f"{self.folder}{name}"

    @rule(name=NAMES, data=st.binary(max_size=20), fields=FIELDS, marks=st.none() | METADATA)
    def create(self, name: str, data: bytes, fields: ObjectFields, marks: dict[str, str] | None) -> None:
        upload, name = replace(fields, data=data), self.named(name)
        self.both(lambda side, _: side.objects.create(name, upload, marks=marks))
        self.look(name)

    @rule(name=NAMES, data=st.binary(min_size=1, max_size=20), fields=FIELDS)
    def upload(self, name: str, data: bytes, fields: ObjectFields) -> None:
        name = self.named(name)

        async def read_at(start: int, size: int) -> bytes:
            return data[start : start + size]

        self.both(
            lambda side, _: side.uploads.create(
                name, fields, size=len(data), read_at=read_at, on_progress=lambda _: None
            )
        )
        self.look(name)

    # Of two reasons to refuse a copy, the order says which is raised.
    @rule(which=CHOICE, name=ACCEPTED, fields=FIELDS.filter(lambda fields: fields.metadata != TooLarge()))
    def copy(self, which: int, name: str, fields: ObjectFields) -> None:
        if self.stored:
            pair, name = self.stored[which % len(self.stored)], self.named(name)
            self.both(lambda side, number: side.objects.copy(pair[number], name, fields))
            self.look(name)

    def look(self, name: str) -> None:
        """Remember both objects, for calls on a generation that may be gone by then."""
        found = self.both(lambda side, _: side.objects.info(name)) if name else None
        if found is not None and all(found):
            self.stored.append([each for each in found if each is not None])

    @rule(prefix=PREFIXES, delimiter=DELIMITERS, hashes=st.booleans())
    def listing(self, prefix: str, delimiter: str | None, *, hashes: bool) -> None:
        prefix = f"{self.folder}{prefix}"
        self.both(lambda side, _: side.objects.names(prefix, delimiter=delimiter))
        self.both(lambda side, _: side.objects.infos(prefix, delimiter=delimiter, hashes=hashes))

    @rule(which=CHOICE, start=st.integers(0, 20), length=st.none() | st.integers(1, 20), pinned=st.booleans())
    def read(self, which: int, start: int, length: int | None, *, pinned: bool) -> None:
        if not self.stored:
            return
        pair = self.stored[which % len(self.stored)]
        size, part = pair[0].size, None
        # Only a part of a known generation lies surely within the object.
        if length is not None and pinned and start < size:
            part = (start, min(size, start + length))
        self.both(
            lambda side, number: side.objects.read(
                pair[number].name, generation=pair[number].generation if pinned else None, part=part
            )
        )

    @rule(prefix=PREFIXES, time=TIMES)
    def keep_until(self, prefix: str, time: datetime) -> None:
        self.both(lambda side, _: side.objects.keep_until(f"{self.folder}{prefix}", time))
        self.scan(prefix)

    @rule(prefix=PREFIXES)
    def scan(self, prefix: str) -> None:
        async def whole(objects: Objects) -> list[ScannedObject]:
            return [each async for page in objects.scan(f"{self.folder}{prefix}") for each in page]

        found = self.both(lambda side, _: whole(side.objects))
        assert found is not None
        self.scanned += [list(pair) for pair in zip(*found, strict=True)]

    @rule(name=NAMES, metadata=METADATA)
    def mark(self, name: str, metadata: dict[str, str]) -> None:
        name = self.named(name)
        if name:
            self.both(lambda side, _: side.objects.mark(name, metadata))

    @rule(which=CHOICE)
    def delete_unchanged(self, which: int) -> None:
        if self.scanned:
            pair = self.scanned[which % len(self.scanned)]
            self.both(
                lambda side, number: side.objects.delete_unchanged(pair[number].name, pair[number].version)
            )

    @rule(which=CHOICE, pinned=st.booleans())
    def delete(self, which: int, *, pinned: bool) -> None:
        if self.stored:
            pair = self.stored[which % len(self.stored)]
            self.both(
                lambda side, number: side.objects.delete(
                    pair[number].name, generation=pair[number].generation if pinned else None
                )
            )

    def teardown(self) -> None:
        self.scan("")


@pytest.fixture(params=["files", "memory"])
def sides(
    request: pytest.FixtureRequest, adk_store_bucket: str, tmp_path: Path
) -> Iterator[tuple[list[Side], asyncio.Runner]]:
    """The emulator's objects, and local ones of each kind."""
    limits = ArtifactLimits(deadline_s=20)
    calls = StorageCalls(adk_store_bucket, project=None, client=None, credentials=None, limits=limits)
    cloud = CloudObjects(calls)
    kept = kept_at(tmp_path if request.param == "files" else None)
    with asyncio.Runner() as runner:
        yield [Side(cloud, ResumableUploads(calls, cloud)), Side(kept.objects, kept.uploads)], runner
        runner.run(cloud.close())
        runner.run(kept.objects.close())


def test_both_backends_answer_alike(sides: tuple[list[Side], asyncio.Runner]) -> None:
    """The same results and the same errors, whatever comes before."""
    both, runner = sides
    runs = iter(range(10**6))
    # Annotated as taking a class; its documentation says: a function that makes one, too.
    run_state_machine_as_test(
        lambda: ObjectsMachine(both, runner, f"{next(runs)}/"),  # type: ignore[arg-type]
        settings=BOUNDS,
    )
