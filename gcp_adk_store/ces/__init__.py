"""Run the Python tools and callbacks of customer-engagement agents as their own runtime does."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gcp_adk_store.ces.apps.findings import Finding
    from gcp_adk_store.ces.apps.layout import AgentApp, read_app
    from gcp_adk_store.ces.apps.lint import lint_app
    from gcp_adk_store.ces.apps.loading import load_code, load_tools
    from gcp_adk_store.ces.host.keys import SessionKey, SessionKeyLike
    from gcp_adk_store.ces.host.results import Call, CallbackRun, RunFailure, ToolRun
    from gcp_adk_store.ces.host.runtime import PythonRuntime
    from gcp_adk_store.ces.host.settings import RuntimeSettings
    from gcp_adk_store.ces.http.policy import HttpPolicy
    from gcp_adk_store.ces.tools.declarations import CodeFile, MockTool, PythonTool, Tool
    from gcp_adk_store.ces.tools.mocks import FakeTools, MockConfig, MockedCall
    from gcp_adk_store.ces.tools.openapi import OpenApiTool

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
    "Call": "host.results",
    "CallbackRun": "host.results",
    "CodeFile": "tools.declarations",
    "FakeTools": "tools.mocks",
    "Finding": "apps.findings",
    "HttpPolicy": "http.policy",
    "MockConfig": "tools.mocks",
    "MockTool": "tools.declarations",
    "MockedCall": "tools.mocks",
    "OpenApiTool": "tools.openapi",
    "PythonRuntime": "host.runtime",
    "PythonTool": "tools.declarations",
    "RunFailure": "host.results",
    "RuntimeSettings": "host.settings",
    "SessionKey": "host.keys",
    "SessionKeyLike": "host.keys",
    "Tool": "tools.declarations",
    "ToolRun": "host.results",
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
