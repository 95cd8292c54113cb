"""Run user code in isolation; ``docs/ces-sandbox.md`` describes the protection."""

from gcp_adk_store.ces.sandbox.bubblewrap import BubblewrapSandbox
from gcp_adk_store.ces.sandbox.environment import (
    Environment,
    InterpreterWarning,
    default_folder,
    install_environment,
    open_environment,
)
from gcp_adk_store.ces.sandbox.inprocess import InProcessSandbox, UnsafeSandboxWarning
from gcp_adk_store.ces.sandbox.interface import (
    GUEST,
    Answer,
    Clock,
    Limits,
    Sandbox,
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxRunError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)

__all__ = [
    "GUEST",
    "Answer",
    "BubblewrapSandbox",
    "Clock",
    "Environment",
    "InProcessSandbox",
    "InterpreterWarning",
    "Limits",
    "Sandbox",
    "SandboxCrashError",
    "SandboxError",
    "SandboxMemoryError",
    "SandboxOutputError",
    "SandboxProtocolError",
    "SandboxRunError",
    "SandboxTimeoutError",
    "SandboxUnavailableError",
    "UnsafeSandboxWarning",
    "default_folder",
    "install_environment",
    "open_environment",
]
