"""Run user code in isolation; ``docs/ces-sandbox.md`` describes the protection."""

from gcp_adk_store.ces.sandbox.bubblewrap import BubblewrapSandbox
from gcp_adk_store.ces.sandbox.clock import Clock
from gcp_adk_store.ces.sandbox.environment import (
    Environment,
    default_folder,
    install_environment,
    open_environment,
)
from gcp_adk_store.ces.sandbox.errors import (
    SandboxCrashError,
    SandboxError,
    SandboxMemoryError,
    SandboxOutputError,
    SandboxProtocolError,
    SandboxTimeoutError,
    SandboxUnavailableError,
)
from gcp_adk_store.ces.sandbox.inprocess import InProcessSandbox, UnsafeSandboxWarning
from gcp_adk_store.ces.sandbox.interface import GUEST, Answer, Sandbox
from gcp_adk_store.ces.sandbox.interpreters import InterpreterWarning
from gcp_adk_store.ces.sandbox.limits import Limits

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
    "SandboxTimeoutError",
    "SandboxUnavailableError",
    "UnsafeSandboxWarning",
    "default_folder",
    "install_environment",
    "open_environment",
]
