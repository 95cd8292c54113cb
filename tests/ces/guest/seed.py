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
        # Newer versions of the platform have these besides.
        "actions": ("EventActions", {"escalate": True}),
        "streaming_stage": ("Optional[str]", "partial"),
        "language_code": ("str", "fr"),
        "project_id": ("str", "p"),
        "project_number": ("int", 7),
        "location": ("str", "eu"),
        "app_id": ("str", "a"),
        "turn_index": ("int", 3),
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
        "will_continue": ("Optional[bool]", True),  # of newer versions
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
    "LlmResponse": {
        "content": ("Content", CONTENT),
        "partial": ("Optional[bool]", True),
        "turn_complete": ("Optional[bool]", True),  # of newer versions
    },
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

DEFAULTS: Final[dict[str, dict[str, str]]] = {
    "Event": {
        **dict.fromkeys(["partial", "turn_complete", "interrupted"], "False"),
        "long_running_tool_ids": "set()",
        "actions": "EventActions()",
    },
    "EventActions": {
        **dict.fromkeys(["skip_summarization", "escalate", "end_invocation"], "False"),
        "transfer_to_agent": "''",
        **dict.fromkeys(["state_delta", "artifact_delta", "requested_auth_configs"], "{}"),
    },
    "CallbackContext": {
        **dict.fromkeys(["invocation_id", "agent_name", "session_id"], "''"),
        **dict.fromkeys(["variables", "state"], "{}"),
        "events": "[]",
        "actions": "EventActions()",
        **dict.fromkeys(["language_code", "project_id", "location", "app_id"], "''"),
        **dict.fromkeys(["project_number", "turn_index"], "0"),
    },
    "LlmRequest": {"contents": "[]"},
    "Tool": {"description": "''"},
    "ToolContext": {"function_call_id": "''"},
}
"""What attributes are by default that are not None."""

METHODS: Final[dict[str, dict[str, str]]] = {
    "Blob": {"transcript": "() -> Optional[str]", "from_json": "(data: str) -> Blob"},
    "CallbackContext": {
        "get_variable": "(key: str, default: Any) -> Any",
        "set_variable": "(key: str, value: Any) -> None",
        "remove_variable": "(key: str) -> None",
        "get_last_user_input": "() -> list[Part]",
        "get_last_agent_output": "() -> list[Part]",
        "parts": "() -> list[Part]",
    },
    "Content": {"is_user": "() -> bool", "is_model": "() -> bool"},
    "Event": {
        "is_user": "() -> bool",
        "is_agent": "(agent_name: Optional[str] = None) -> bool",
        "has_error": "() -> bool",
        "parts": "() -> list[Part]",
    },
    "ExternalResponse": {"json": "() -> Any", "raise_for_status": "()"},
    "GenerateContentConfig": {"hide_tool": "(tool_name: str)"},
    "LlmResponse": {"from_parts": "(parts: list[Part]) -> LlmResponse"},
    "Part": {
        "text_or_transcript": "() -> Optional[str]",
        "has_function_call": "(name) -> bool",
        "has_function_response": "(name) -> bool",
        "from_text": "(text: str) -> Part",
        "from_function_call": "(name: str, args: dict[str, Any]) -> Part",
        "from_function_response": "(name: str, response: dict[str, Any]) -> Part",
        "from_inline_data": "(data: bytes, mime_type: str) -> Part",
        "from_json": "(data: str) -> Part",
        "from_agent_transfer": "(agent: str) -> Part",
        "from_end_session": "(*, reason: str, escalated: bool = False) -> Part",
        "from_customized_response": (
            "(*, content: str, disable_barge_in: bool = False, enable_dtmf: bool = False, "
            "dtmf_finish_digit: str = '#', dtmf_endpointing_timeout: int = 3) -> Part"
        ),
    },
    "Requests": {
        "get": "(url, params=None, **kwargs)",
        "post": "(url, data=None, json=None, **kwargs)",
        "put": "(url, data=None, json=None, **kwargs)",
        "delete": "(url, **kwargs)",
        "patch": "(url, data=None, json=None, **kwargs)",
        "head": "(url, **kwargs)",
        "options": "(url, **kwargs)",
    },
}
"""The signature of each method, self or cls left out."""

METHODS_BEYOND: Final[dict[str, dict[str, str]]] = {
    "CallbackContext": {"get_variable": "(key: str, default: Any = None) -> Any"},
    "Part": {"from_audio": "(audio_uri: str, cancellable: bool = False, interruptable: bool = True) -> Part"},
    "Requests": {
        "request": "(method, url, *, params=None, data=None, headers=None, json=None)",
        "async_request": "(method, url, *, params=None, data=None, headers=None, json=None)",
        **{f"async_{name}": signature for name, signature in METHODS["Requests"].items()},
    },
}
"""Signatures that were measured, in place of a documented one or besides."""

GLOBAL_FUNCTIONS: Final = {
    "get_variable": "(key, default=None)",
    "set_variable": "(key, value)",
    "remove_variable": "(key)",
}
"""Documented by their examples; the default was measured."""


CLASSES: Final = sorted(
    {"AsyncTools", "ExternalResponse", "HttpMethod", "Requests", "StatusError", "Tools"} | set(ATTRIBUTES)
)

GLOBALS: Final = ("async_tools", "ces_public", "ces_requests", "context", "tools", *GLOBAL_FUNCTIONS)

MEASURED_GLOBALS: Final = (
    *("Blob", "CallbackContext", "Content", "ExternalResponse", "FunctionCall", "FunctionResponse"),
    *("GenerateContentConfig", "HttpMethod", "LlmRequest", "LlmResponse", "Part", "StatusError", "Tool"),
    *("async_tools", "ces_internal", "ces_requests", "context", "get_variable", "importlib"),
    *("remove_variable", "requests", "set_variable", "tools"),
)
"""What a tool of the platform listed."""

TYPING_NAMES: Final = (
    *("Any", "Callable", "Dict", "Iterable", "Iterator", "List", "Literal", "Mapping", "Optional"),
    *("Sequence", "Set", "Tuple", "Type", "Union"),
)
"""What the platform's own samples use without an import, and their like."""

_CHECK: Final = """
# Check if the {subject} was successful
try:
  response.raise_for_status()
except StatusError:
  print(f"Request failed with status {{response.status_code}}")

# Convert the response to json
data = response.json()
"""

EXAMPLES: Final = {
    "Blob": """
# Create a blob from raw bytes
blob = Blob(mime_type='text/plain')
blob.raw_data = b'hello world'

# Create a blob from a JSON string
Blob.from_json(data='{"key": "value"}')
""",
    "LlmResponse": """
response = LlmResponse.from_parts(
  parts=[
    Part.from_text(text="hello world")
  ]
)
""",
    "Part": """
text_part = ces_public.Part.from_text(text="Hello from the user!")

tool_part = ces_public.Part.from_function_call(
  name="get_weather",
  args={"location": "Mountain View"}
)
""",
    "get_variable": """
def get_a_value() -> int:
  # Retrieve the value of 'my_key' from the state
  my_value = get_variable('my_key')
  return my_value + 5
""",
    "remove_variable": """
def remove_a_value() -> None:
  # Delete 'my_key' from the state
  remove_variable('my_key')
""",
    "set_variable": """
def set_a_value() -> None:
  # Set the value of 'my_key' to 10
  set_variable('my_key', 10)
""",
    "async_tools": """
response_future = async_tools.<TOOL_DISPLAY_NAME>(<ARGS_AS_DICT>)
# ... misc work
response = response_future() # poll for response
"""
    + _CHECK.format(subject="tool call"),
    "ces_requests": """
# Make a GET request
response = ces_requests.get('https://api.example.com/data')
"""
    + _CHECK.format(subject="request"),
    "tools": """
response = tools.<TOOL_DISPLAY_NAME>(<ARGS_AS_DICT>)
"""
    + _CHECK.format(subject="tool call"),
}
"""The reference's examples, to the letter."""
