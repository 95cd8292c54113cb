"""Versions of artifacts keep their promises while several processes save and delete them."""

import asyncio
import io
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from google.genai import types

from gcp_adk_store import ArtifactLimits, Store
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.checkers import certain_end
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Call, Journal, Outcome
from tests.simulation.resent import may_arrive_again
from tests.support.lengths import at_length

KEPT: Final = ("kept", "user:kept")
"""Nobody deletes them."""
FILENAMES: Final = (*KEPT, "removed")
KNOWN_FOR_S: Final = 2.0
LIMITS: Final = ArtifactLimits(known_for_s=KNOWN_FOR_S)
SCOPE: Final[dict[str, Any]] = {"app_name": "app", "user_id": "user", "session_id": "session"}


def text_of(part: types.Part | None) -> str | None:
    """Return the name of the save that a part comes from, which its bytes repeat."""
    if part is None:
        return None
    assert part.inline_data is not None
    assert part.inline_data.data is not None
    name, *others = part.inline_data.data.decode().split()
    assert {name, *others} == {name}, "bytes of two saves are mixed"
    return name


async def read_in_parts(actor: Actor, step: int, **which: Any) -> types.Part | None:
    """Read a version by ranges, with rests between them, in which others may delete it or save it anew."""
    reader = await actor.store.artifacts.open_artifact(**which)
    if reader is None:
        return None
    data, random = b"", actor.random(step)
    while piece := await reader.read(max(reader.size // 3, 1)):
        data += piece
        await asyncio.sleep(random.choice([0, random.uniform(0, 3)]))
    assert len(data) == reader.size, "a part of the bytes is missing"
    return types.Part.from_bytes(data=data, mime_type="text/plain")


async def act(actor: Actor, step: int) -> None:
    """Save, load, list or delete."""
    random = actor.random(step)
    filename = random.choice(FILENAMES)
    key = {**SCOPE, "filename": filename}
    name = f"{actor.name}-{step}"
    artifacts = actor.store.artifacts
    action = random.choice(
        ["save", "save", "save file", "load", "load version", "versions", "keys", "delete"]
    )
    data = f"{name} ".encode() * random.choice([1, 100])
    if action == "save":
        part = types.Part.from_bytes(data=data, mime_type="text/plain")
        await actor.call("save", filename, lambda: artifacts.save_artifact(**key, artifact=part), given=name)
    elif action == "save file":
        save = partial(artifacts.save_artifact_file, **key, source=io.BytesIO(data))
        await actor.call("save", filename, save, given=name)
    elif action in ("load", "load version"):
        version = None if action == "load" else random.randrange(4)
        load = artifacts.load_artifact if random.random() < 0.5 else partial(read_in_parts, actor, step)
        await actor.call(action, filename, lambda: load(**key, version=version), given=version, seen=text_of)
    elif action == "versions":
        await actor.call("versions", filename, lambda: artifacts.list_versions(**key))
    elif action == "keys":
        await actor.call("keys", "all", lambda: artifacts.list_artifact_keys(**SCOPE))
    elif filename not in KEPT:
        await actor.call("delete", filename, lambda: artifacts.delete_artifact(**key))


def last_look(world: World, delete: Call) -> float:
    """Return when a deletion last listed what there was: what is saved later stays."""
    served = f"service: list objects of {delete.process} "
    times = [float(line.split()[0]) for line in world.trace if served in line]
    seen = [time for time in times if delete.begun <= time <= delete.ended]
    return max(seen, default=float("inf")) if delete.outcome is Outcome.DONE else float("inf")


def is_deleted(deletes: Iterable[Call], since: float, until: float) -> bool:
    """Return whether a deletion may have taken effect between two times."""
    return any(call.begun < until and certain_end(call) > since for call in deletes)


def check_versions(world: World, journal: Journal, filename: str, stored: dict[int, str]) -> None:
    """Check the versions of an artifact; *stored* is what each has at the end."""
    saves = list(journal.of("save", filename))
    deletes = [call for call in journal.of("delete", filename) if call.outcome is not Outcome.REFUSED]
    looks = [call for kind in ("load", "load version") for call in journal.of(kind, filename)]
    loads = [call for call in looks if call.outcome is Outcome.DONE]
    if filename in KEPT:
        assert not [call for call in looks if call.error == "StoredDataError"], "a version could not be read"
    never = {call.given for call in saves if call.outcome is Outcome.REFUSED}
    seen = {*stored.values(), *(call.result for call in loads if call.result is not None)}
    assert not never & seen, f"{never & seen} were refused, and are there"
    assert seen <= {call.given for call in saves}, "there are bytes that nobody saved"
    looked = {id(delete): last_look(world, delete) for delete in deletes}
    # A request that comes again after a deletion makes its object anew: Cloud Storage cannot know it.
    once = [
        call
        for call in saves
        if not (deletes and may_arrive_again(world, call, ("create object", "upload object")))
    ]
    _check_numbers([call for call in once if call.outcome is Outcome.DONE], deletes)
    for call in once:
        places = [number for number, name in stored.items() if name == call.given]
        assert len(places) <= 1, f"{call.given} is stored as {places}"
        if call.outcome is Outcome.DONE:
            assert places in ([], [call.result]), f"{call.given} is {places}, and was called {call.result}"
            is_gone = any(call.ended < one.begun and one.outcome is Outcome.DONE for one in deletes)
            assert not (places and is_gone), f"{call.given} was deleted, and is there"
            reaching = [delete for delete in deletes if call.begun <= looked[id(delete)]]
            if not is_deleted(reaching, call.begun, float("inf")):
                assert places, f"{call.given} was acknowledged, and is lost"
    for load in loads:
        _check_load(load, once, deletes)
    _check_lists(journal, filename, once, deletes)
    for first in loads:
        for second in loads:
            if first.given == second.given is not None and None not in (first.result, second.result):
                since = min(first.begun, second.begun)
                is_other = is_deleted(deletes, since, max(first.ended, second.ended))
                assert is_other or first.result == second.result, f"version {first.given} changed"


def _check_numbers(saves: Sequence[Call], deletes: Sequence[Call]) -> None:
    for first in saves:
        for second in saves:
            if first is second or is_deleted(
                deletes, min(first.begun, second.begun) - KNOWN_FOR_S * 1.1, max(first.ended, second.ended)
            ):
                continue
            assert first.result != second.result, f"{first.given} and {second.given} are both {first.result}"
            if first.ended < second.begun:
                assert first.result < second.result, (
                    f"{second.given} is below {first.given}, which was before"
                )


def _check_load(load: Call, saves: Sequence[Call], deletes: Sequence[Call]) -> None:
    for save in saves:
        if save.outcome is not Outcome.DONE:
            continue
        if load.result == save.given:
            assert load.given in (None, save.result), f"{save.given} was loaded as {load.given}"
            assert save.begun <= load.ended, "a load saw the future"
            assert not any(
                save.ended < one.begun and one.ended < load.begun and one.outcome is Outcome.DONE
                for one in deletes
            ), f"{save.given} was deleted, and loaded later"
        if save.ended < load.begun and not is_deleted(deletes, save.begun - KNOWN_FOR_S * 1.1, load.ended):
            if load.given == save.result:
                assert load.result == save.given, f"version {load.given} is {load.result}, not {save.given}"
            if load.given is None:
                assert load.result is not None, f"{save.given} was saved, and nothing was loaded"
                numbers = [one.result for one in saves if one.given == load.result and one.result is not None]
                assert not numbers or numbers[0] >= save.result, f"the load missed {save.given}"


def _check_lists(journal: Journal, filename: str, saves: Sequence[Call], deletes: Sequence[Call]) -> None:
    for kind in ("versions", "keys"):
        for listed in journal.of(kind):
            if listed.outcome is not Outcome.DONE or (kind == "versions" and listed.of != filename):
                continue
            assert listed.result == sorted({*listed.result}), "a listing is not in order"
            for save in saves:
                if save.outcome is Outcome.DONE and save.ended < listed.begun:
                    wanted = save.result if kind == "versions" else filename
                    assert wanted in listed.result or is_deleted(deletes, save.begun, listed.ended), (
                        f"a listing at {listed.begun:.3f} missed {save.given}"
                    )


async def stored_in(plain: Store, filename: str) -> dict[int, str]:
    """Return the name of the save of each version that is there."""
    key = {**SCOPE, "filename": filename}
    stored: dict[int, str] = {}
    for version in await plain.artifacts.list_versions(**key):
        name = text_of(await plain.artifacts.load_artifact(**key, version=version))
        assert name is not None
        stored[version] = name
    return stored


async def scenario(world: World) -> None:
    """Let a fleet save and delete versions."""
    fleet = Fleet(world, artifact_limits=LIMITS)
    await fleet.work(40, act, rest_s=300)
    for filename in FILENAMES:
        check_versions(world, fleet.journal, filename, await stored_in(fleet.plain, filename))


def test_each_version_has_its_number_and_its_bytes() -> None:
    """Numbers are taken once and grow, bytes never change, and what is deleted or refused is not there."""
    simulate(scenario, seeds=range(at_length(8, 20)), faults=Faults.all(0.04))
