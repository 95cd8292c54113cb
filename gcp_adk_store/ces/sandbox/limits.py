"""The limits of one run."""

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from gcp_adk_store.errors import InvalidInputError

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most that one run may use, and what happens above each limit.

    The platform does not publish its limits. Tools that take longer than about five seconds must be
    asynchronous there.

    Raises:
        InvalidInputError: a limit is not a positive number.
    """

    wall_s: float = 30.0
    """From its start until its result, host calls included: then it is killed, a SandboxTimeoutError."""
    cpu_s: int = 10
    """Processor time of all its threads: then it is killed, a SandboxTimeoutError."""
    memory_bytes: int = 1024 * _MIB
    """Address space, the interpreter's some 200 MiB included: beyond, a MemoryError in the code, which is a
    SandboxMemoryError if the code does not catch it."""
    threads: int = 64
    """Threads at a time: beyond, starting one fails in the code."""
    file_bytes: int = 16 * _MIB
    """All of its files in /tmp together: beyond, an OSError in the code."""
    files: int = 1024
    """Files and folders in /tmp: beyond, an OSError in the code."""
    open_files: int = 64
    """Open files at a time: beyond, an OSError in the code."""
    output_bytes: int = 2 * _MIB
    """What it writes to standard output and error: beyond, it is killed, a SandboxOutputError. What tools and
    callbacks print is cut before, at ``max_stdout_chars`` of the runtime."""
    frame_bytes: int = 24 * _MIB
    """Its request, or one answer of the host, as JSON: a larger one is an InvalidInputError."""
    sent_frame_bytes: int = 12 * _MIB
    """Its result, or one host call, as JSON: a larger result is a SandboxOutputError. The host reads a frame
    in one step, at most some 30 ms of this size."""
    frame_values: int = 50_000
    """Values in one frame that it sends, and 80 times as many characters outside of texts, such as those of
    numbers: some 30 ms as well. Beyond, a SandboxProtocolError."""
    frame_depth: int = 100
    """Lists and objects within each other in one frame."""
    received_bytes: int = 64 * _MIB
    """All frames that it sends together: beyond, a SandboxOutputError."""
    received_values: int = 1_000_000
    """Values in all of these frames, as far more may be kept here than was sent: beyond, a
    SandboxProtocolError."""
    host_calls: int = 1000
    """Calls of the host: beyond, a SandboxProtocolError."""
    host_calls_at_once: int = 32
    """Calls of the host that are unanswered at a time: beyond, a SandboxProtocolError."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            kinds = (int, float) if each.name == "wall_s" else (int,)
            if isinstance(value, bool) or not isinstance(value, kinds) or not 0 < value < math.inf:
                raise InvalidInputError(f"{each.name} must be a positive number, not {str(value)[:80]!r}")

    def as_json(self) -> dict[str, Any]:
        """Return the limits by name."""
        return asdict(self)
