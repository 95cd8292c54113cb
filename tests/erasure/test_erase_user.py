"""After an erasure a raw scan of both stores finds no byte of the user, and all of everybody else."""

from gcp_adk_store import Store
from gcp_adk_store.model.erasures import digest_of
from tests.erasure.conftest import OTHER, OWNER, PLACES, USER, Stored, canary, erase, fill
from tests.support.traces import traces


async def test_nothing_of_a_user_is_left(place: tuple[Store, Stored]) -> None:
    """A scan finds each canary before, and none after; another user's stay."""
    store, stored = place
    await fill(store)
    before = stored()
    missing = [name for name in PLACES if not traces(before, canary(name))]

    _, receipt = await erase(store, task_owner=OWNER)

    after = stored()
    assert [] == missing
    assert [] == [name for name in PLACES if traces(after, canary(name))]
    assert [] == traces(after, USER)
    assert [] == traces(after, OWNER)
    told = receipt.to_json()
    assert told["digest"] == digest_of(told)
    assert {} == {kind: n for kind, n in told["erased"].items() if kind in ("keys", "others") and n["count"]}
    assert receipt.empty_at is not None
    assert receipt.begun_at <= receipt.empty_at <= receipt.ended_at


async def test_another_user_keeps_everything(place: tuple[Store, Stored]) -> None:
    """What was theirs is there byte for byte."""
    store, stored = place
    await fill(store, OTHER, "their-owner")
    before = {name: data for name, data in stored().items() if not name.startswith("file ")}
    await fill(store)

    await erase(store, task_owner=OWNER)

    after = {name: data for name, data in stored().items() if not name.startswith("file ")}
    changed = {name for name in before if before[name] != after.get(name)}
    assert {"adk_apps/app"} >= changed
    assert {"adk_erasures/key"} == after.keys() - before.keys()
