"""Compare what workers got as answers about memories with what is stored of them."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.chaos.journal import Operation
from tests.chaos.raw_store import RawMemory
from tests.chaos.verdict import DUPLICATED, LOST, Violation


def check_memories(found: Sequence[RawMemory], operations: Sequence[Operation]) -> Iterator[Violation]:
    """Each acknowledged memory once, none that was refused or forgotten, nothing else."""
    outcomes: dict[tuple[str, str], set[str]] = defaultdict(set)
    forgets: dict[tuple[str, str], set[str]] = defaultdict(set)
    digests: dict[tuple[str, str], str] = {}
    for one in operations:
        if one.kind not in ("remember", "forget"):
            continue
        name = (one.intent["place"], one.intent["event"])
        (outcomes if one.kind == "remember" else forgets)[name].add(one.outcome)
        if one.kind == "remember":
            digests[name] = one.intent["digest"]
    times = Counter((memory.prefix, memory.id) for memory in found)
    for name, reported in outcomes.items():
        kind = _wrong(reported, forgets[name], times[name])
        if kind is not None:
            yield Violation(kind, f"memory {name[1]} of {name[0]}, {times[name]} times")
    for memory in found:
        digest = digests.get((memory.prefix, memory.id))
        if digest != memory.digest:
            kind = "never sent" if digest is None else "other content"
            yield Violation(kind, f"memory {memory.id} of {memory.prefix}")


def _wrong(reported: set[str], forgets: set[str], times: int) -> str | None:
    """Return what is wrong with a memory that is stored so many *times*."""
    if times > 1:
        return DUPLICATED
    if times == 1 and reported == {"refused"}:
        return "refused but stored"
    if times == 1 and "acknowledged" in forgets:
        return "deleted but stored"
    return LOST if times == 0 and "acknowledged" in reported and forgets <= {"refused"} else None
