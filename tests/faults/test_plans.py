"""Plans pick the calls that they say, and the same ones every time; a URL says what its request does."""

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from gcp_adk_store.testing.faults import (
    Call,
    Cut,
    Delay,
    Fault,
    Garble,
    Hang,
    Hold,
    Injector,
    Lose,
    Plan,
    Plans,
    RandomFaults,
    Refuse,
    from_nth,
    no_faults,
    nth,
    only,
)
from gcp_adk_store.testing.faults.plans import COMMON_FAULTS
from gcp_adk_store.testing.faults.storage_proxy import bucket_of, is_bucket_look, request_kind
from gcp_adk_store.testing.simulation import Faults


def calls(*methods: str, owner: str = "project") -> list[Call]:
    """Return calls of one owner in order."""
    return [
        Call(service="firestore", owner=owner, method=method, number=number)
        for number, method in enumerate(methods)
    ]


THREE = calls("Commit", "RunQuery", "Commit")


@pytest.mark.parametrize(
    ("plan", "met"),
    [
        (no_faults, [None, None, None]),
        (nth(1, Lose()), [None, Lose(), None]),
        (from_nth(1, Hang()), [None, Hang(), Hang()]),
        (only("Commit", nth(1, Lose())), [None, None, Lose()]),
        (only("Commit", from_nth(0, Cut())), [Cut(), None, Cut()]),
        (only(["RunQuery", "Commit"], nth(2, Delay(1))), [None, None, Delay(1)]),
    ],
)
def test_a_plan_picks_calls_by_their_number(plan: Plan, met: list[Fault | None]) -> None:
    """Of an owner's calls, or of those with certain methods."""
    assert met == [plan(call) for call in THREE]


def test_chosen_methods_are_numbered_for_each_owner() -> None:
    """Another test's calls through the same plan do not count."""
    plan = only("Commit", nth(1, Lose()))
    mixed = [
        call
        for pair in zip(calls(*["Commit"] * 2), calls(*["Commit"] * 2, owner="other"), strict=True)
        for call in pair
    ]

    assert [None, None, Lose(), Lose()] == [plan(call) for call in mixed]


def test_chance_is_the_same_with_the_same_seed() -> None:
    """In whatever order the calls are asked about; another seed or owner meets others."""
    many = calls(*["Commit"] * 500)
    plan = RandomFaults(seed=7, rate=0.3)
    met = [plan(call) for call in many]
    backwards = [RandomFaults(seed=7, rate=0.3)(call) for call in reversed(many)]

    assert met == backwards[::-1]
    assert met != [RandomFaults(seed=8, rate=0.3)(call) for call in many]
    assert met != [plan(call) for call in calls(*["Commit"] * 500, owner="other")]
    assert {None, *COMMON_FAULTS} == set(met)
    assert 100 < sum(fault is not None for fault in met) < 200


@pytest.mark.parametrize(("rate", "met"), [(0.0, set[Fault | None]({None})), (1.0, {Lose(), Cut()})])
def test_chance_has_its_bounds(rate: float, met: set[Fault | None]) -> None:
    """Nothing goes wrong at 0, everything at 1."""
    plan = RandomFaults(seed=1, rate=rate, faults=[Lose(), Cut()])

    assert met == {plan(call) for call in calls(*["upload"] * 50)}


def test_every_owner_has_a_plan_of_its_own() -> None:
    """For as long as it is set; others have the default."""
    plans = Plans(default=nth(0, Hang()))
    (mine,), (other,) = calls("Commit", owner="mine"), calls("Commit", owner="other")
    with plans.of("mine", nth(0, Lose())):
        within = plans(mine), plans(other)
    after = plans(mine)
    plans.set("mine", no_faults)

    assert (Lose(), Hang()) == within
    assert (Hang(), None) == (after, plans(mine))


def test_calls_are_numbered_by_owner_and_counted() -> None:
    """From any thread, none twice."""
    seen: list[Call] = []

    def plan(call: Call) -> Fault | None:
        seen.append(call)
        return Lose() if call.method == "Commit" else None

    injector = Injector("firestore", plan)

    def send() -> None:
        for _ in range(50):
            injector.next("one", "Commit")
            injector.next("two", "RunQuery")

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = injector.figures

    assert sorted(range(200)) == sorted(call.number for call in seen if call.owner == "one")
    assert sorted(range(200)) == sorted(call.number for call in seen if call.owner == "two")
    assert Counter(Commit=200, RunQuery=200) == figures.calls
    assert Counter(lose=200) == figures.faults


@pytest.mark.parametrize(
    ("refuse", "code", "status"),
    [
        (Refuse(), "UNAVAILABLE", 503),
        (Refuse("RESOURCE_EXHAUSTED"), "RESOURCE_EXHAUSTED", 429),
        (Refuse(500), "INTERNAL", 500),
        (Refuse(502), "UNAVAILABLE", 502),
    ],
)
def test_a_refusal_has_both_forms(refuse: Refuse, code: str, status: int) -> None:
    """So that one plan serves both services."""
    assert (code, status) == (refuse.grpc_code, refuse.http_status)


@pytest.mark.parametrize("status", ["unavailable", "OK", 200, 999])
def test_a_status_that_refuses_nothing_is_an_error(status: str | int) -> None:
    """At once, not in the middle of a test."""
    with pytest.raises(ValueError, match="is not a status that refuses a call"):
        Refuse(status)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Cut("requests"), "part is 'requests', it must be 'answer' or 'request'"),  # type: ignore[arg-type]  # as a typo
        (lambda: Garble(part="body"), "part is 'body', it must be 'answer' or 'request'"),  # type: ignore[arg-type]  # as above
        (lambda: Hold("befor"), "stage is 'befor', it must be 'before' or 'after'"),  # type: ignore[arg-type]  # as above
        (lambda: RandomFaults(1, 50), "rate is 50, it must be from 0 to 1"),
        (lambda: RandomFaults(1, float("nan")), "rate is nan, it must be from 0 to 1"),
        (lambda: Faults(twice=5), "twice is 5, it must be from 0 to 1"),
        (lambda: Faults(refused=0.6, late=0.6), "the shares of requests are 1.2 together, .* 1 at most"),
    ],
)
def test_a_fault_that_would_not_happen_as_it_says_is_an_error(make: Callable[[], object], says: str) -> None:
    """A test with it would show nothing, or wait forever."""
    with pytest.raises(ValueError, match=says):
        make()


def test_a_hold_is_decided_once() -> None:
    """By whom releases it first: the test, or the proxy that stops."""
    hold = Hold()
    hold.release(forward=False)
    hold.release()

    assert hold.decision.result() is False
    assert Hold() != Hold()


HOST = "http://127.0.0.1:9"


@pytest.mark.parametrize("host", ["", HOST])
@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/storage/v1/b/x/o", "list"),
        ("GET", "/storage/v1/b/x/o?prefix=a%2Fo%2F", "list"),
        ("GET", "/storage/v1/b/x/o/name", "metadata"),
        ("GET", "/storage/v1/b/x/o/name?alt=media", "media"),
        ("GET", "/download/storage/v1/b/x/o/name?alt=media", "media"),
        ("POST", "/upload/storage/v1/b/x/o?uploadType=multipart", "upload"),
        ("PUT", "/upload/storage/v1/b/x/o?uploadType=resumable&upload_id=1", "upload"),
        ("DELETE", "/storage/v1/b/x/o/name", "delete"),
        ("PATCH", "/storage/v1/b/x/o/name", "patch"),
        ("PUT", "/storage/v1/b/x/o/name", "update"),
        ("POST", "/storage/v1/b/x/o/a%2Fb/rewriteTo/b/y/o/c", "rewrite"),
        ("POST", "/storage/v1/b/x/o/a/copyTo/b/y/o/c", "copy"),
        ("POST", "/storage/v1/b/x/o/a/compose", "compose"),
        ("GET", "/b/x/o", "list"),
        ("GET", "/x/folder/name?X-Goog-Signature=1", "media"),
        ("PUT", "/x/folder/name", "upload"),
        ("GET", "/storage/v1/b/x", "other"),
    ],
)
def test_a_request_is_named_by_what_it_does(host: str, method: str, path: str, kind: str) -> None:
    """Whichever API has its form, with and without its host."""
    assert (kind, "x") == (request_kind(method, f"{host}{path}"), bucket_of(f"{host}{path}"))


@pytest.mark.parametrize("path", ["/storage/v1/b?project=p", "/batch/storage/v1", "/", "/wipe"])
def test_a_request_of_no_bucket_has_no_owner(path: str) -> None:
    """It is another kind of request."""
    assert ("other", "") == (request_kind("POST", path), bucket_of(path))


@pytest.mark.parametrize(
    ("method", "path", "is_look"),
    [
        ("GET", "/storage/v1/b/x?projection=noAcl", True),
        ("PATCH", "/storage/v1/b/x", False),
        ("GET", "/storage/v1/b/x/o", False),
        ("GET", "/storage/v1/b", False),
    ],
)
def test_the_look_at_a_bucket_is_distinguished_from_the_rest(method: str, path: str, is_look: bool) -> None:  # noqa: FBT001
    """Google's client asks for it by itself, at times that nobody knows."""
    assert is_look is is_bucket_look(method, path)
