"""Run the Python tools and callbacks of customer-engagement agents as their own runtime does."""

from typing import TYPE_CHECKING

from gcp_adk_store.imports import offer

if TYPE_CHECKING:
    from gcp_adk_store.ces.apps.findings import Finding
    from gcp_adk_store.ces.apps.layout import AgentApp, load_code, load_tools
    from gcp_adk_store.ces.apps.lint import lint_app
    from gcp_adk_store.ces.apps.reading import read_app
    from gcp_adk_store.ces.conversation.conversation import AppAgent, Conversation
    from gcp_adk_store.ces.conversation.decisions import ConversationTurn, ToolUse
    from gcp_adk_store.ces.conversation.models import ScriptedModel
    from gcp_adk_store.ces.host.results import Call, CallbackRun, RunFailure, RunLog, ToolRun
    from gcp_adk_store.ces.host.runtime import PythonRuntime
    from gcp_adk_store.ces.host.settings import RuntimeSettings, SessionKey, SessionKeyLike
    from gcp_adk_store.ces.http.policy import HttpPolicy
    from gcp_adk_store.ces.tools.declarations import (
        CodeFile,
        FakeTools,
        MockConfig,
        MockedCall,
        MockTool,
        PythonTool,
        Tool,
    )
    from gcp_adk_store.ces.tools.openapi import OpenApiTool

__all__ = [
    "AgentApp",
    "AppAgent",
    "Call",
    "CallbackRun",
    "CodeFile",
    "Conversation",
    "ConversationTurn",
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
    "RunLog",
    "RuntimeSettings",
    "ScriptedModel",
    "SessionKey",
    "SessionKeyLike",
    "Tool",
    "ToolRun",
    "ToolUse",
    "lint_app",
    "load_code",
    "load_tools",
    "read_app",
]

offer(
    __name__,
    {
        "apps.findings": ("Finding",),
        "apps.layout": ("AgentApp", "load_code", "load_tools"),
        "apps.lint": ("lint_app",),
        "apps.reading": ("read_app",),
        "conversation.conversation": ("AppAgent", "Conversation"),
        "conversation.models": ("ScriptedModel",),
        "conversation.decisions": ("ConversationTurn", "ToolUse"),
        "host.results": ("Call", "CallbackRun", "RunFailure", "RunLog", "ToolRun"),
        "host.runtime": ("PythonRuntime",),
        "host.settings": ("RuntimeSettings", "SessionKey", "SessionKeyLike"),
        "http.policy": ("HttpPolicy",),
        "tools.declarations": (
            *("CodeFile", "FakeTools", "MockConfig", "MockTool", "MockedCall", "PythonTool", "Tool"),
        ),
        "tools.openapi": ("OpenApiTool",),
    },
)
