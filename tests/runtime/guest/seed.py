"""What the reference of the platform's Python runtime names: classes, attributes, methods and globals."""

from typing import Any, Final

PART: Final = {"text": "hello"}
CONTENT: Final = {"role": "user", "parts": [PART]}
EVENT: Final = {
    "id": "e1",
    "invocation_id": "i1",
    "author": "user",
    "timestamp": 1_700_000_000,
    "content": CONTENT,
}

ATTRIBUTES: Final[dict[str, dict[str, tuple[str, Any]]]] = {
    "Blob": {
        "display_name": ("Optional[str]", "letter.txt"),
        "data": ("Optional[bytes]", "aGVsbG8="),
        "mime_type": ("Optional[str]", "text/plain"),
    },
    "CallbackContext": {
        "user_content": ("Optional[Content]", CONTENT),
        "invocation_id": ("str", "i1"),
        "agent_name": ("str", "root"),
        "session_id": ("str", "s1"),
        "variables": ("dict[str, Any]", {"a": 1}),
        "state": ("dict[str, Any]", {"a": 1}),
        "events": ("list[Event]", [EVENT]),
    },
    "Content": {"parts": ("Optional[list[Part]]", [PART]), "role": ("Optional[str]", "user")},
    "Event": {
        "id": ("str", "e1"),
        "invocation_id": ("str", "i1"),
        "author": ("str", "user"),
        "timestamp": ("int", 1_700_000_000),
        "content": ("Content", CONTENT),
        "actions": ("EventActions", {"escalate": True}),
        "long_running_tool_ids": ("set[str]", ["f1"]),
        "partial": ("bool", True),
        "turn_complete": ("bool", True),
        "error_code": ("str", "E"),
        "error_message": ("str", "broken"),
        "interrupted": ("bool", True),
        "branch": ("str", "agent_1.agent_2"),
        "grounding_metadata": ("Any", {"chunks": []}),
    },
    "EventActions": {
        "skip_summarization": ("bool", True),
        "state_delta": ("dict[str, Any]", {"a": 1}),
        "artifact_delta": ("dict[str, Any]", {"f": 0}),
        "transfer_to_agent": ("str", "other"),
        "escalate": ("bool", True),
        "requested_auth_configs": ("dict[str, dict[str, Any]]", {"f1": {"scheme": "x"}}),
        "end_invocation": ("bool", True),
    },
    "FunctionCall": {
        "id": ("Optional[str]", "f1"),
        "args": ("Optional[dict[str, Any]]", {"a": None}),
        "name": ("Optional[str]", "look_up"),
    },
    "FunctionDeclaration": {"name": ("Optional[str]", "look_up")},
    "FunctionResponse": {
        "id": ("Optional[str]", "f1"),
        "name": ("Optional[str]", "look_up"),
        "response": ("Optional[dict[str, Any]]", {"output": 1}),
    },
    "GenerateContentConfig": {
        "system_instruction": ("Optional[Content]", CONTENT),
        "tools": ("Optional[list[ToolDeclaration]]", [{"functionDeclarations": [{"name": "look_up"}]}]),
        "excluded_tools": ("Optional[list[str]]", ["look_up"]),
    },
    "LlmRequest": {
        "model": ("Optional[str]", "gemini"),
        "contents": ("List[Content]", [CONTENT]),
        "config": ("Optional[GenerateContentConfig]", {"excludedTools": ["x"]}),
    },
    "LlmResponse": {"content": ("Content", CONTENT), "partial": ("Optional[bool]", True)},
    "Part": {
        "function_call": ("Optional[FunctionCall]", {"name": "look_up", "args": {}}),
        "function_response": ("Optional[FunctionResponse]", {"name": "look_up", "response": {}}),
        "text": ("Optional[str]", "hello"),
        "inline_data": ("Optional[Blob]", {"data": "aGVsbG8=", "mimeType": "text/plain"}),
    },
    "Tool": {"name": ("str", "look_up"), "description": ("str", "Looks up.")},
    "ToolContext": {"function_call_id": ("str", "f1")},
    "ToolDeclaration": {
        "function_declarations": ("Optional[list[FunctionDeclaration]]", [{"name": "look_up"}])
    },
}
"""Of each class that is data: the type of each attribute as documented, and a value of it in JSON."""

NEEDED: Final[dict[str, dict[str, Any]]] = {
    "Event": {"id": "e0", "invocation_id": "i0", "author": "root", "timestamp": 0},
    "Tool": {"name": "other"},
}
"""What an object cannot do without, beside the attribute that is looked at."""

METHODS: Final[dict[str, dict[str, str]]] = {
    "Blob": {"transcript": "", "from_json": "data"},
    "CallbackContext": {
        "get_variable": "key, default",
        "set_variable": "key, value",
        "remove_variable": "key",
        "get_last_user_input": "",
        "get_last_agent_output": "",
        "parts": "",
    },
    "Content": {"is_user": "", "is_model": ""},
    "Event": {"is_user": "", "is_agent": "agent_name=None", "has_error": "", "parts": ""},
    "ExternalResponse": {"json": "", "raise_for_status": ""},
    "GenerateContentConfig": {"hide_tool": "tool_name"},
    "LlmResponse": {"from_parts": "parts"},
    "Part": {
        "text_or_transcript": "",
        "has_function_call": "name",
        "has_function_response": "name",
        "from_text": "text",
        "from_function_call": "name, args",
        "from_function_response": "name, response",
        "from_inline_data": "data, mime_type",
        "from_json": "data",
        "from_agent_transfer": "agent",
        "from_end_session": "*, reason, escalated=False",
        "from_customized_response": (
            "*, content, disable_barge_in=False, enable_dtmf=False, dtmf_finish_digit='#', "
            "dtmf_endpointing_timeout=3"
        ),
    },
    "Requests": {
        "get": "url, params=None, **kwargs",
        "post": "url, data=None, json=None, **kwargs",
        "put": "url, data=None, json=None, **kwargs",
        "delete": "url, **kwargs",
        "patch": "url, data=None, json=None, **kwargs",
        "head": "url, **kwargs",
        "options": "url, **kwargs",
    },
}
"""Parameters of each method, self or cls left out."""

GLOBAL_FUNCTIONS: Final = {"get_variable": "key", "set_variable": "key, value", "remove_variable": "key"}

CLASSES: Final = sorted(
    {"AsyncTools", "ExternalResponse", "HttpMethod", "Requests", "StatusError", "Tools"} | set(ATTRIBUTES)
)

GLOBALS: Final = ("async_tools", "ces_public", "ces_requests", "context", "tools", *GLOBAL_FUNCTIONS)

HTTP_METHODS: Final = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")
