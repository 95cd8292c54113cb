"""Files that the user's message refers to are there for code."""

from google.adk.artifacts import InMemoryArtifactService
from google.adk.artifacts.artifact_util import get_artifact_uri
from google.genai import types

from tests.ces.host.runs import MakeRuntime, ran

BODY = """
    return [part.inline_data.raw_data.decode() if part.inline_data else None
            for part in context.user_content.parts]
"""


def reference(uri: str) -> types.Part:
    """Return a part that refers to a file."""
    return types.Part(file_data=types.FileData(file_uri=uri, mime_type="text/plain"))


def uri_of(user: str, filename: str, version: int = 0) -> str:
    """Return how ADK refers to an artifact of the tests' session."""
    return get_artifact_uri(
        app_name="shop", user_id=user, session_id="s1", filename=filename, version=version
    )


async def test_an_artifact_of_the_session_is_loaded(make: MakeRuntime) -> None:
    """In place of the reference; others, and what is gone, stay as they were, with a warning."""
    artifacts = InMemoryArtifactService()
    for user in ("ada", "eve"):
        await artifacts.save_artifact(
            app_name="shop",
            user_id=user,
            session_id="s1",
            filename="note.txt",
            artifact=types.Part(inline_data=types.Blob(mime_type="text/plain", data=user.encode())),
        )
    content = types.Content(
        role="user",
        parts=[
            reference(uri_of("ada", "note.txt")),
            reference(uri_of("eve", "note.txt")),
            reference(uri_of("ada", "gone.txt")),
            reference("gs://bucket/object"),
        ],
    )
    run = await ran(make(artifact_service=artifacts), BODY, user_content=content)

    assert run.result == ["ada", None, None, None]
    assert len([warning for warning in run.warnings if "artifact" in warning]) == 2
