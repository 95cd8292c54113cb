"""Copies of artifacts and uploads of browsers become versions once, in every order."""

from functools import partial
from typing import Any, Final

from google.genai import types

from gcp_adk_store import Store
from gcp_adk_store.testing.simulation import Faults, World, simulate
from tests.simulation.fleet import Actor, Fleet
from tests.simulation.journal import Journal, Outcome
from tests.simulation.raw import objects_of, require_collected
from tests.simulation.test_artifacts import LIMITS, SCOPE, text_of
from tests.support.stored import put_upload

FILENAMES: Final = ("one", "two")
UPLOADED: Final = 6
"""Files that browsers have uploaded before."""


def key(filename: str) -> dict[str, Any]:
    """Return the ids of an artifact."""
    return {**SCOPE, "filename": filename}


async def act(actor: Actor, step: int) -> None:
    """Save, copy a version to the other artifact, finalize an upload, or load."""
    random, artifacts = actor.random(step), actor.store.artifacts
    filename, name = random.choice(FILENAMES), f"{actor.name}-{step}"
    other = FILENAMES[1 - FILENAMES.index(filename)]
    match random.choice(["save", "copy", "copy", "finalize", "finalize", "load"]):
        case "save":
            part = types.Part.from_bytes(data=name.encode(), mime_type="text/plain")
            save = partial(artifacts.save_artifact, **key(filename), artifact=part)
            await actor.call("save", filename, save, given=name)
        case "copy":
            version = random.choice([None, 0])
            copy = partial(artifacts.copy_artifact, **key(other), to_filename=filename, version=version)
            await actor.call("copy", filename, copy, given=version)
        case "finalize":
            upload = f"{random.randrange(UPLOADED):032x}"
            finalize = partial(artifacts.finalize_upload, **key("one"), upload_id=upload)
            await actor.call("finalize", "one", finalize, given=upload)
        case _:
            await actor.call("load", filename, lambda: artifacts.load_artifact(**key(filename)), seen=text_of)


async def stored_in(plain: Store, filename: str) -> list[str | None]:
    """Return what each version holds; they have no gap."""
    versions = await plain.artifacts.list_versions(**key(filename))
    assert versions == [*range(len(versions))], "a number is missing"
    return [text_of(await plain.artifacts.load_artifact(**key(filename), version=one)) for one in versions]


def check_versions(journal: Journal, filename: str, stored: list[str | None]) -> None:
    """Check that each call made one version or none, as it says."""
    made = [call for kind in ("save", "copy", "finalize") for call in journal.of(kind, filename)]
    done = [call for call in made if call.outcome is Outcome.DONE and call.result is not None]
    for call in done:
        assert call.result < len(stored), f"{call.kind} of {call.process} is lost"
        if call.kind != "copy":
            assert stored[call.result] == call.given, f"{call.given} is not version {call.result}"
    numbers = [call.result for call in done if call.kind != "finalize"]
    numbers += {call.given: call.result for call in done if call.kind == "finalize"}.values()
    assert len({*numbers}) == len(numbers), "two calls have one version"
    maybe = [call for call in made if call.outcome is Outcome.UNKNOWN and call.kind != "finalize"]
    uploads = {call.given for call in made if call.kind == "finalize" and call.outcome is not Outcome.REFUSED}
    assert len(stored) <= 1 + len(numbers) + len(maybe) + len(uploads), "a call made two versions"
    for upload in uploads:
        results = {call.result for call in done if call.kind == "finalize" and call.given == upload}
        assert len(results) <= 1, f"an upload was called {results}"


def check_loads(journal: Journal, stored: dict[str, list[str | None]]) -> None:
    """Check that each load saw a version that is stored, as late as those that were acknowledged before."""
    for load in journal.of("load"):
        if load.outcome is not Outcome.DONE:
            continue
        assert load.result in stored[load.of], "bytes were loaded that are in no version"
        last = len(stored[load.of]) - 1 - stored[load.of][::-1].index(load.result)
        before = [
            call.result
            for kind in ("save", "copy", "finalize")
            for call in journal.of(kind, load.of)
            if call.ended < load.begun and call.result is not None
        ]
        assert last >= max(before, default=0), f"a load at {load.begun:.3f} missed a version"


async def scenario(world: World) -> None:
    """Let a fleet make versions of two artifacts, of each other and of uploads."""
    fleet = Fleet(world, artifact_limits=LIMITS)
    plain = fleet.plain
    for filename in FILENAMES:
        part = types.Part.from_bytes(data=b"first", mime_type="text/plain")
        await plain.artifacts.save_artifact(**key(filename), artifact=part)
    for number in range(UPLOADED):
        upload = f"{number:032x}"
        await put_upload(plain, key("one"), upload, upload.encode())
    await fleet.work(40, act, rest_s=300)
    stored = {filename: await stored_in(plain, filename) for filename in FILENAMES}
    for filename in FILENAMES:
        check_versions(fleet.journal, filename, stored[filename])
    check_loads(fleet.journal, stored)
    for number in range(UPLOADED):
        upload = f"{number:032x}"
        version = await plain.artifacts.finalize_upload(**key("one"), upload_id=upload)
        again = await plain.artifacts.finalize_upload(**key("one"), upload_id=upload)
        now = await plain.artifacts.load_artifact(**key("one"), version=version)
        assert (again, text_of(now)) == (version, upload), "an upload is not the version that it became"
    await require_collected(plain)
    left = [name for name in await objects_of(fleet.service) if name.startswith("adk-store-uploads/")]
    assert not left, left


def test_a_copy_or_an_upload_becomes_one_version() -> None:
    """Numbers are taken once, without a gap, and an upload has one number, however often it is finalized."""
    simulate(scenario, seeds=[*range(10), 851595009], faults=Faults.all(0.04))
