"""Set what was measured against what this store is meant to reach."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tools.benchmarks.figures import Counted, Figure
from tools.benchmarks.scenarios_sessions import HELD_TURN
from tools.benchmarks.subjects import (
    ADKS,
    FLOOR,
    IN_MEMORY,
    OURS,
    PARSING,
    RAW_BATCH_GET,
    RAW_COMMIT,
    SAME_COMMIT,
    SLEEPING,
    SMALLER,
    TWO_COMMITS,
)

_STALL_MS: Final = 20.0
_FLAT: Final = 1.15
_OF_FLOOR: Final = 1.15
_FORK_AT_MOST: Final = 12
_RESTORE_AT_MOST: Final = 3
_TURN_AT_MOST: Final = 3
_HELD_TURN_AT_MOST: Final = 2
_HELD_TURN_READS: Final = 2
_WINDOW_READS: Final = 3
_WINDOW_CPU_MS: Final = 5
_GROUPED: Final = 8
_CALM: Final = "collector as advised"


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
    yield _of_floor(f"{name}, 0 ms", figures.ms(name), figures.ms(name, FLOOR))
    yield _faster("append, client CPU", 5, figures.cpu_ms(name, ADKS), figures.cpu_ms(name), word="less")
    yield _of_floor("append, client CPU", figures.cpu_ms(name), figures.cpu_ms(name, FLOOR))
    wide = figures.scenario(r"^\d+ sessions x")
    throughput = f"throughput, {wide.partition(',')[0] or '64 sessions x 32 tasks'}"
    yield _faster(throughput, _GROUPED, figures.ms(wide, ADKS), figures.ms(wide))
    yield _of_floor(throughput, figures.ms(wide), figures.ms(wide, FLOOR))
    turn = 'turn of 6 events, durability="turn"'
    yield _faster(f"{turn}, 20 ms", 4, figures.ms(turn, ADKS, "20"), figures.ms(turn, OURS, "20"))
    # What the runner and the agent compute is not the store's.
    whole, computed = (figures.ms(HELD_TURN, subject, "20") for subject in (OURS, IN_MEMORY))
    own = None if whole is None or computed is None else whole - computed
    trips = figures.ms(HELD_TURN, TWO_COMMITS, "20")
    less = f"{HELD_TURN}, 20 ms, less the same in memory"
    yield _at_most(f"{less}, of two raw Commits", _OF_FLOOR, own, trips)
    yield _of_floor(less, own, figures.ms(HELD_TURN, FLOOR, "20"))


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
    for pattern, times in (
        (r"^save at .* versions, unknown", 3),
        (r"^save at .* versions, known", 6),
        (r"^load the latest of .* versions, unknown", 3),
        (r"^load the latest of .* versions, known", 3),
    ):
        name = figures.scenario(pattern)
        ours, floor = figures.ms(name), figures.ms(name, FLOOR)
        yield _faster(name or pattern.strip("^"), times, figures.ms(name, ADKS), ours)
        if "unknown" in pattern:
            yield _of_floor(name or pattern.strip("^"), ours, floor)


def _stalls(figures: Figures) -> Iterable[Target]:
    by_settings: dict[str, Callable[[Figure], float | None]] = {
        _CALM: lambda figure: figure.stall_ms,
        "collector by default": lambda figure: figure.stall_by_default_ms,
    }
    for how, stall_of in by_settings.items():
        stalls = {(figure.scenario, figure.subject): stall_of(figure) for figure in figures.all}
        ours = {name: stall for (name, subject), stall in stalls.items() if subject == OURS and stall}
        floors = {name: stalls.get((name, PARSING)) or stalls.get((name, SLEEPING)) for name in ours}
        yield _longest_stall(how, ours)
        if how == _CALM:  # elsewhere, a collection of all objects may come into either
            yield _stall_of_floor(how, ours, floors)


def _longest_stall(how: str, stalls: Mapping[str, float]) -> Target:
    what, wanted = f"event-loop stall during any of it, {how}", f"< {_STALL_MS:.0f} ms"
    if not stalls:
        return Target(what, wanted, "", None)
    where = max(stalls, key=lambda name: stalls[name])
    over = sum(stall >= _STALL_MS for stall in stalls.values())
    found = f"{stalls[where]:.1f} ms ({where}); {over} of {len(stalls)} scenarios over it"
    return Target(what, wanted, found, over == 0)


def _stall_of_floor(how: str, stalls: Mapping[str, float], floors: Mapping[str, float | None]) -> Target:
    """Compare those over 20 ms with what parses and frees as many events, or has as many tasks that sleep.

    A scenario without either is not compared.
    """
    what, wanted = f"longer stalls, {how}, of {PARSING} or {SLEEPING}", f"<= {_OF_FLOOR:g}x"
    longer = [name for name, stall in stalls.items() if stall >= _STALL_MS]
    ratios = {name: stalls[name] / floor for name in longer if (floor := floors[name])}
    if not ratios:
        found = "" if longer or not stalls else "none is longer"
        return Target(what, wanted, found, True if found else None)
    where = max(ratios, key=lambda name: ratios[name])
    over = sum(ratio > _OF_FLOOR for ratio in ratios.values())
    found = f"{ratios[where]:.2f}x ({where}); {over} of {len(ratios)} over it"
    return Target(what, wanted, found, over == 0)


def _faster(
    what: str, wanted: float, theirs: float | None, ours: float | None, *, word: str = "faster"
) -> Target:
    return _compare(what, f"{wanted:g}x {word}", theirs, ours, lambda ratio: ratio >= wanted)


def _at_most(what: str, wanted: float, ours: float | None, other: float | None) -> Target:
    return _compare(what, f"<= {wanted:g}x", ours, other, lambda ratio: ratio <= wanted)


def _of_floor(what: str, ours: float | None, floor: float | None) -> Target:
    return _at_most(f"{what}, of {FLOOR}", _OF_FLOOR, ours, floor)


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
