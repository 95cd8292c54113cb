"""Make the parts that the artifact suite saves."""

from typing import Any

from google.genai import types

Ids = dict[str, Any]
"""Arguments that say which artifact, session or user a call is about."""


def text(words: str) -> types.Part:
    """Return an artifact of text."""
    return types.Part(text=words)


def binary(data: bytes, mime_type: str = "image/png", display_name: str | None = None) -> types.Part:
    """Return an artifact of bytes."""
    return types.Part(inline_data=types.Blob(data=data, mime_type=mime_type, display_name=display_name))


def file(uri: str, mime_type: str | None = None) -> types.Part:
    """Return an artifact whose content lies elsewhere."""
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type=mime_type))


def tombstone() -> types.Part:
    """Return what ADK's session rewind saves over an artifact that it removes."""
    return binary(b"", "application/octet-stream")


def reference(target: Ids, version: int = 0) -> types.Part:
    """Return an artifact that points to a version of *target*, in the session that it names, if any."""
    scope = f"/sessions/{target['session_id']}" if target.get("session_id") else ""
    return file(
        f"artifact://apps/{target['app_name']}/users/{target['user_id']}{scope}"
        f"/artifacts/{target['filename']}/versions/{version}"
    )
