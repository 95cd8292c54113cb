"""Name what ended a call in the sandbox by what the caller does next.

::

    StoreError
    └── SandboxError
        ├── SandboxUnavailableError  install or allow what the message names; no code was run
        ├── SandboxTimeoutError      make the code faster or asynchronous, or raise wall_s or cpu_s
        ├── SandboxMemoryError       make it use less, or raise memory_bytes
        ├── SandboxOutputError       make it print or return less, or raise the limit that is named
        ├── SandboxCrashError        mend the code: it ended its process, or broke it
        └── SandboxProtocolError     distrust the code: it forged a frame, or called the host too often

After each of them the next call works: it has a process of its own. All pickle.
"""

from collections.abc import Callable

from gcp_adk_store.errors import StoreError


class SandboxError(StoreError):
    """Code had no result, for a reason that is not an exception of its own.

    Attributes:
        output: What it had printed until then, up to the limit.
    """

    output: str = ""


class SandboxUnavailableError(SandboxError):
    """The sandbox cannot run here; no code was run."""


class SandboxTimeoutError(SandboxError):
    """The code took longer than it may, and was killed."""


class SandboxMemoryError(SandboxError):
    """The code wanted more memory than it may have."""


class SandboxOutputError(SandboxError):
    """The code printed or returned more than it may."""


class SandboxCrashError(SandboxError):
    """The code's process ended without a result."""


class SandboxProtocolError(SandboxError):
    """The code's process sent what no honest one sends."""


REASONS: dict[str, Callable[[str], SandboxError]] = {
    "memory": lambda said: SandboxMemoryError(f"the code wanted more than memory_bytes: {said}"),
    "output": lambda said: SandboxOutputError(f"the result is too large: {said}"),
    "error": lambda said: SandboxCrashError(f"the entry failed:\n{said}"),
}
"""By what the process says of itself why it has no result."""
