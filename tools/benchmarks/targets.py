"""Set what was measured against what this store is meant to reach."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tools.benchmarks.figures import Counted, Figure
from tools.benchmarks.scenarios_sessions import HELD_TURN
from tools.benchmarks.subjects import (
    ADKS,
    IN_MEMORY,
    OURS,
    PARSING,
    RAW_BATCH_GET,
    RAW_COMMIT,
    RAW_DOWNLOAD,
    RAW_LISTING,
    RAW_UPLOAD,
    SAME_COMMIT,
    SMALLER,
    TWO_COMMITS,
)

_STALL_MS: Final = 20.0
_FLAT: Final = 1.15
_FORK_AT_MOST: Final = 12
_RESTORE_AT_MOST: Final = 3
_TURN_AT_MOST: Final = 3
_HELD_TURN_AT_MOST: Final = 2
_HELD_TURN_READS: Final = 2
_WINDOW_READS: Final = 3
_WINDOW_CPU_MS: Final = 5
_GROUPED: Final = 8


@dataclass(frozen=True, slots=True)
class Target:
    """One line of the table."""

    what: str
    wanted: str
    found: str
    """What was measured; empty where it was not."""
    reached: bool | None


class Figures:
    """Finds figures by scenario and subject."""

    def __init__(self, figures: Sequence[Figure]) -> None:
        self._by_name = {(figure.scenario, figure.subject): figure for figure in figures}
        self.all = figures

    def ms(self, scenario: str, subject: str = OURS, delay: str = "0") -> float | None:
        """Return a median latency."""
        figure = self._by_name.get((scenario, subject))
        return figure.p50_ms(delay) if figure else None

    def cpu_ms(self, scenario: str, subject: str = OURS) -> float | None:
        """Return a median CPU time."""
        figure = self._by_name.get((scenario, subject))
        return figure.cpu_ms if figure else None

    def counted(self, scenario: str, subject: str = OURS) -> Counted | None:
        """Return what was counted."""
        figure = self._by_name.get((scenario, subject))
        return figure.counted if figure else None

    def scenario(self, pattern: str) -> str:
        """Return the last scenario that matches: the one that goes furthest."""
        names = [figure.scenario for figure in self.all if re.search(pattern, figure.scenario)]
        return names[-1] if names else ""


def targets(found: Sequence[Figure]) -> list[Target]:
    """Return every target with what this run reached."""
    figures = Figures(found)
    return [
        *_appends(figures),
        *_reads(figures),
        *_bills(figures),
        *_points(figures),
        *_flat(figures),
        *_pages(figures),
        *_artifacts(figures),
        *_stalls(figures),
    ]


def _appends(figures: Figures) -> Iterable[Target]:
    name = "append, all scopes"
    for delay, times, floor in (("0", 5.0, 1.4), ("20", 4.5, 1.1)):
        ours = figures.ms(name, OURS, delay)
        yield _faster(f"{name}, {delay} ms", times, figures.ms(name, ADKS, delay), ours)
        yield _at_most(
            f"{name}, {delay} ms, of one raw Commit", floor, ours, figures.ms(name, RAW_COMMIT, delay)
        )
        yield _at_most(
            f"{name}, {delay} ms, of the same Commit, raw", floor, ours, figures.ms(name, SAME_COMMIT, delay)
        )
    yield _faster("append, client CPU", 5, figures.cpu_ms(name, ADKS), figures.cpu_ms(name), word="less")
    wide = figures.scenario(r"^\d+ sessions x")
    yield _faster(
        f"throughput, {wide.partition(',')[0] or '64 sessions x 32 tasks'}",
        _GROUPED,
        figures.ms(wide, ADKS),
        figures.ms(wide),
    )
    turn = 'turn of 6 events, durability="turn"'
    yield _faster(f"{turn}, 20 ms", 4, figures.ms(turn, ADKS, "20"), figures.ms(turn, OURS, "20"))
    # What the runner and the agent compute is not the store's.
    whole, computed = (figures.ms(HELD_TURN, subject, "20") for subject in (OURS, IN_MEMORY))
    own = None if whole is None or computed is None else whole - computed
    trips = figures.ms(HELD_TURN, TWO_COMMITS, "20")
    yield _at_most(f"{HELD_TURN}, 20 ms, less the same in memory, of two raw Commits", 1.15, own, trips)


def _reads(figures: Figures) -> Iterable[Target]:
    name = "get 1,000 events, whole, warm"
    ours = figures.ms(name)
    yield _faster(name, 10, figures.ms(name, ADKS), ours)
    parsing, batch_get = figures.ms(name, PARSING), figures.ms(name, RAW_BATCH_GET)
    floor = None if parsing is None or batch_get is None else parsing + batch_get
    yield _at_most(f"{name}, of parsing and one raw BatchGet", 1.15, ours, floor)
    name = figures.scenario(r"^get .* since compaction")
    counted, cpu = figures.counted(name), figures.cpu_ms(name)
    shown = name or "get since compaction"
    yield _limit(f"{shown}: billed reads", _WINDOW_READS, None if counted is None else counted.reads)
    yield _limit(f"{shown}: CPU, ms", _WINDOW_CPU_MS, cpu)


def _bills(figures: Figures) -> Iterable[Target]:
    name = figures.scenario(r"^conversation of \d+ turns")
    shown = name or "conversation of 100 turns"
    ours, theirs = (figures.counted(name, subject) or Counted() for subject in (OURS, ADKS))
    yield _faster(f"{shown}, billed reads", 30, theirs.reads or None, ours.reads, word="fewer")
    yield _faster(f"{shown}, billed writes", 1.8, theirs.writes or None, ours.writes, word="fewer")
    wide = figures.scenario(r"^\d+ sessions x")
    ours, theirs = (figures.counted(wide, subject) or Counted() for subject in (OURS, ADKS))
    shown = wide or "64 sessions x 32 tasks, an append"
    yield _faster(f"{shown}, billed writes", _GROUPED, theirs.writes or None, ours.writes, word="fewer")
    name = 'turn of 6 events, durability="turn"'
    counted = figures.counted(name)
    yield _limit(f"{name}: commits", _TURN_AT_MOST, None if counted is None else counted.rpcs["Commit"])
    counted = figures.counted(HELD_TURN)
    commits = None if counted is None else counted.rpcs["Commit"]
    yield _limit(f"{HELD_TURN}: commits", _HELD_TURN_AT_MOST, commits)
    yield _limit(f"{HELD_TURN}: billed reads", _HELD_TURN_READS, None if counted is None else counted.reads)


def _points(figures: Figures) -> Iterable[Target]:
    fork, restore = (figures.scenario(f"^{what} a session of") for what in ("fork", "restore"))
    forked, restored = figures.counted(fork), figures.counted(restore)
    for name, counted, what, wanted in (
        (fork, forked, "reads", _FORK_AT_MOST),
        (fork, forked, "writes", _FORK_AT_MOST),
        (restore, restored, "writes", _RESTORE_AT_MOST),
    ):
        found = None if counted is None else int(getattr(counted, what))
        yield _limit(f"{name or 'fork or restore a session'}: billed {what}", wanted, found)
    name = figures.scenario(r"^get .* events at a point, warm")
    past, now = figures.counted(name), figures.counted(name.replace(" at a point", ", whole"))
    yield Target(
        "get at a point: billed reads",
        "those of the whole",
        f"{past.reads} / {now.reads}" if past and now else "",
        past.reads == now.reads if past and now else None,
    )


def _flat(figures: Figures) -> Iterable[Target]:
    for pattern, what in ((r"^append at .* events", "history"), (r"^append at .* of state", "state")):
        names = list(dict.fromkeys(f.scenario for f in figures.all if re.search(pattern, f.scenario)))
        small, large = (names[0], names[-1]) if names else ("", "")
        yield _at_most(
            f"append cost, {what} {_size(small)} -> {_size(large)}" if names else f"append cost, {what}",
            _FLAT,
            figures.ms(large),
            figures.ms(large, SMALLER),
        )


def _pages(figures: Figures) -> Iterable[Target]:
    name = figures.scenario("^list a page")
    yield _at_most(
        "list by page: latency, where there is one page to where there are many",
        _FLAT,
        figures.ms(name),
        figures.ms(name, SMALLER),
    )
    few, many = figures.counted(name, SMALLER), figures.counted(name)
    whole = figures.counted(figures.scenario(r"^list .* sessions, whole"))
    if few is None or many is None or whole is None:
        yield Target("list by page: billed reads", "page cost", "", None)
        return
    # What a page bills beside its sessions is the state of the users on it: at most one each.
    yield Target(
        "list by page: billed reads",
        "page cost",
        f"{many.reads}; {few.reads} where there is one page; {whole.reads} for the whole list",
        many.reads <= 2 * few.reads,
    )


def _artifacts(figures: Figures) -> Iterable[Target]:
    for pattern, times, body in (
        (r"^save at .* versions, unknown", 3, RAW_UPLOAD),
        (r"^save at .* versions, known", 6, RAW_UPLOAD),
        (r"^load the latest of .* versions, unknown", 3, RAW_DOWNLOAD),
        (r"^load the latest of .* versions, known", 3, RAW_DOWNLOAD),
    ):
        name = figures.scenario(pattern)
        ours = figures.ms(name)
        yield _faster(name or pattern.strip("^"), times, figures.ms(name, ADKS), ours)
        listing, moved = figures.ms(name, RAW_LISTING), figures.ms(name, body)
        if listing is not None and moved is not None:
            yield _at_most(f"{name}, of {RAW_LISTING} and {body}", _FLAT, ours, listing + moved)


def _stalls(figures: Figures) -> Iterable[Target]:
    ours = [figure for figure in figures.all if figure.subject == OURS]
    yield _stall("collector as advised", [(figure.stall_ms, figure.scenario) for figure in ours])
    yield _stall("collector by default", [(figure.stall_by_default_ms, figure.scenario) for figure in ours])


def _stall(how: str, found: Iterable[tuple[float | None, str]]) -> Target:
    what, wanted = f"event-loop stall during any of it, {how}", f"< {_STALL_MS:.0f} ms"
    stalls = [(stall, scenario) for stall, scenario in found if stall is not None]
    if not stalls:
        return Target(what, wanted, "", None)
    worst, where = max(stalls)
    over = sum(stall >= _STALL_MS for stall, _ in stalls)
    return Target(
        what,
        wanted,
        f"{worst:.1f} ms ({where}); {over} of {len(stalls)} scenarios over it",
        worst < _STALL_MS,
    )


def _faster(
    what: str, wanted: float, theirs: float | None, ours: float | None, *, word: str = "faster"
) -> Target:
    return _compare(what, f"{wanted:g}x {word}", theirs, ours, lambda ratio: ratio >= wanted)


def _at_most(what: str, wanted: float, ours: float | None, other: float | None) -> Target:
    return _compare(what, f"<= {wanted:g}x", ours, other, lambda ratio: ratio <= wanted)


def _limit(what: str, wanted: int, found: float | None) -> Target:
    shown = "" if found is None else f"{found:.3g}"
    return Target(what, f"<= {wanted}", shown, None if found is None else found <= wanted)


def _compare(
    what: str,
    wanted: str,
    above: float | None,
    below: float | None,
    reached: Callable[[float], bool],
) -> Target:
    if above is None or not below:
        return Target(what, wanted, "", None)
    ratio = above / below
    return Target(what, wanted, f"{ratio:.2f}x ({above:.4g} / {below:.4g})", reached(ratio))


def _size(name: str) -> str:
    return re.sub(r"^append at | events$| of state$", "", name)
