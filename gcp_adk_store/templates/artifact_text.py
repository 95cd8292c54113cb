"""Show an artifact within an instruction: as its text, or as a note of its type."""

from typing import Final

from google.genai import types

# Types that ADK gives a model as text, beside text/*.
_TEXT_LIKE: Final = frozenset(
    {
        "application/csv",
        "application/json",
        "application/svg+xml",
        "application/xml",
        "image/svg",
        "image/svg+xml",
        "image/xml",
    }
)

_UNKNOWN: Final = "application/octet-stream"
_TEXT_ENDINGS: Final = (".txt", ".csv", ".json", ".xml")


def artifact_text(part: types.Part, name: str) -> str:
    """Return the text of *part*, or its type and size or its place, never its bytes."""
    if part.text is not None:
        return part.text
    if part.inline_data is not None:
        data = part.inline_data.data or b""
        kind = (part.inline_data.mime_type or _UNKNOWN).split(";", 1)[0].strip().lower()
        # As in ADK, the filename tells the type of bytes without one.
        named = kind == _UNKNOWN and name.lower().endswith(_TEXT_ENDINGS)
        if kind.startswith("text/") or kind in _TEXT_LIKE or named:
            return data.decode(errors="replace")
        return f"[artifact {name}: {kind}, {len(data)} bytes]"
    if part.file_data is not None:
        return f"[artifact {name}: {part.file_data.mime_type or 'a file'} at {part.file_data.file_uri}]"
    return f"[artifact {name}]"
