"""Run the Python tools and callbacks of customer-engagement agents as their own runtime does."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gcp_adk_store.runtime.apps.findings import Finding
    from gcp_adk_store.runtime.apps.layout import AgentApp, read_app
    from gcp_adk_store.runtime.apps.lint import lint_app
    from gcp_adk_store.runtime.apps.loading import load_code, load_tools
    from gcp_adk_store.runtime.http_policy import HttpPolicy
    from gcp_adk_store.runtime.keys import SessionKey, SessionKeyLike
    from gcp_adk_store.runtime.mocks import FakeTools, MockConfig, MockedCall
    from gcp_adk_store.runtime.openapi import OpenApiTool
    from gcp_adk_store.runtime.python import PythonRuntime
    from gcp_adk_store.runtime.results import Call, CallbackRun, RunFailure, ToolRun
    from gcp_adk_store.runtime.settings import RuntimeSettings
    from gcp_adk_store.runtime.tools import CodeFile, MockTool, PythonTool, Tool

__all__ = [
    "AgentApp",
    "Call",
    "CallbackRun",
    "CodeFile",
    "FakeTools",
    "Finding",
    "HttpPolicy",
    "MockConfig",
    "MockTool",
    "MockedCall",
    "OpenApiTool",
    "PythonRuntime",
    "PythonTool",
    "RunFailure",
    "RuntimeSettings",
    "SessionKey",
    "SessionKeyLike",
    "Tool",
    "ToolRun",
    "lint_app",
    "load_code",
    "load_tools",
    "read_app",
]

_HOMES = {
    "AgentApp": "apps.layout",
    "Call": "results",
    "CallbackRun": "results",
    "CodeFile": "tools",
    "FakeTools": "mocks",
    "Finding": "apps.findings",
    "HttpPolicy": "http_policy",
    "MockConfig": "mocks",
    "MockTool": "tools",
    "MockedCall": "mocks",
    "OpenApiTool": "openapi",
    "PythonRuntime": "python",
    "PythonTool": "tools",
    "RunFailure": "results",
    "RuntimeSettings": "settings",
    "SessionKey": "keys",
    "SessionKeyLike": "keys",
    "Tool": "tools",
    "ToolRun": "results",
    "lint_app": "apps.lint",
    "load_code": "apps.loading",
    "load_tools": "apps.loading",
    "read_app": "apps.layout",
}


def __getattr__(name: str) -> Any:
    # At the first use: the guest lies below this package and needs none of it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
