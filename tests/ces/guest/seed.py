"""What the reference of the platform's Python runtime names, beside the classes of reference.txt."""

import re
from pathlib import Path
from typing import Final

REFERENCE, *_EXAMPLES = re.split(
    r"^# Example of (\w+)$", Path(__file__).with_name("reference.txt").read_text(), flags=re.MULTILINE
)
"""Each class with its attributes, as they travel, and its methods; what was measured is there besides."""
EXAMPLES: Final = dict(zip(_EXAMPLES[::2], _EXAMPLES[1::2], strict=True))
"""The reference's examples, to the letter."""
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
