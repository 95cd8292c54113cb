"""What the reference of the platform's Python runtime names, beside the classes of reference.txt."""

import re
from pathlib import Path
from typing import Final

REFERENCE: Final = Path(__file__).with_name("reference.txt").read_text()
"""Each class with its attributes, as they travel, and its methods; what was measured is there besides."""
CLASSES: Final = re.findall(r"^class (\w+)", REFERENCE, re.MULTILINE)

GLOBALS: Final = (
    *("async_tools", "ces_public", "ces_requests", "context", "tools"),
    *("get_variable", "set_variable", "remove_variable"),
)

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
