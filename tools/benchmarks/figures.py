"""Hold what was measured of one subject in one scenario."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Timing:
    """Latency of one operation over one line."""

    rounds: int
    p50_ms: float
    p99_ms: float
    """The slowest, where there were less than 100 rounds."""
    fastest_ms: float


@dataclass(slots=True)
class Counted:
    """What one operation asked of the emulators."""

    rpcs: dict[str, int] = field(default_factory=dict)
    """Name of an RPC or kind of a request -> how often."""
    reads: int = 0
    writes: int = 0
    deletes: int = 0
    class_a: int = 0
    class_b: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0

    @property
    def rpc_count(self) -> int:
        """All RPCs and requests together."""
        return sum(self.rpcs.values())


@dataclass(slots=True)
class Figure:
    """One subject in one scenario."""

    scenario: str
    subject: str
    timings: dict[str, Timing] = field(default_factory=dict)
    """Injected delay in milliseconds -> latency."""
    cpu_ms: float | None = None
    """Median of this process's own CPU time for one operation, without delay."""
    stall_ms: float | None = None
    """The most that the event loop's thread computed without letting others run, the collector calm."""
    stall_by_default_ms: float | None = None
    """The same, garbage collections included as Python has them by itself."""
    peak_bytes: int | None = None
    """The most memory that Python objects took at a time, over what there was before."""
    counted: Counted | None = None

    @property
    def round_trips(self) -> int | None:
        """Waits for the network that follow one another, as latency grows with the delay.

        Of the fastest rounds, which a busy machine troubles least. ``None`` where the delay is lost in what
        the operation takes by itself.
        """
        delays = sorted((float(delay), timing.fastest_ms) for delay, timing in self.timings.items())
        if len(delays) < 2:  # noqa: PLR2004  # two points make a slope
            return None
        (low, fast), (high, slow) = delays[0], delays[-1]
        trips = round((slow - fast) / (high - low))
        return trips if trips > 0 and fast < high else None

    def p50_ms(self, delay: str = "0") -> float | None:
        """Return the median latency with that delay, if it was measured."""
        timing = self.timings.get(delay)
        return None if timing is None else timing.p50_ms

    def as_json(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {**asdict(self), "round_trips": self.round_trips}
