"""Scripts reply in order; recordings are replayed to the same requests, and to no others."""

import json
from pathlib import Path
from typing import Any

import pytest

from gcp_adk_store.ces import RecordingModel, ReplayedModel, ScriptedModel
from gcp_adk_store.ces.conversation.models import as_model
from gcp_adk_store.errors import InvalidInputError
from tests.ces.conversation.apps import write_app
from tests.ces.conversation.conftest import Converse

SCRIPT: list[Any] = [
    {"calls": [{"name": "count", "args": {}}]},
    "One.",
    {"content": {"parts": [{"text": "Two."}]}},
]


async def test_a_recorded_conversation_is_replayed(tmp_path: Path, converse: Converse) -> None:
    """Ids of calls differ from time to time, and are not compared."""
    app = write_app(tmp_path / "app", {"root": {}}, tools={"count": "def count():\n    return 1"})
    file = tmp_path / "recording.jsonl"
    recorded = converse(app, model=RecordingModel(ScriptedModel(SCRIPT), file))
    key = await recorded.begin()
    first = [await recorded.send(said, key) for said in ("a", "b")]

    replayed = converse(app, model=ReplayedModel(file))
    key = await replayed.begin()
    second = [await replayed.send(said, key) for said in ("a", "b")]

    assert [turn.text for turn in first] == [turn.text for turn in second] == ["One.", "Two."]


async def test_a_conversation_that_departs_from_its_recording_is_refused(
    tmp_path: Path, converse: Converse
) -> None:
    """Another reply would be that to another question."""
    app = write_app(tmp_path / "app", {"root": {}})
    file = tmp_path / "recording.jsonl"
    recorded = converse(app, model=RecordingModel(ScriptedModel(["One."]), file))
    await recorded.send("a", await recorded.begin())

    replayed = converse(app, model=ReplayedModel(file))

    with pytest.raises(InvalidInputError, match="request 1 is not the one that was recorded"):
        await replayed.send("b", await replayed.begin())


async def test_a_script_that_is_over_is_an_error(tmp_path: Path, converse: Converse) -> None:
    """It says how many replies it has."""
    conversation = converse(write_app(tmp_path, {"root": {}}), ["One."])
    key = await conversation.begin()
    await conversation.send("a", key)

    with pytest.raises(InvalidInputError, match="the script has 1 replies"):
        await conversation.send("b", key)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "cannot be read as a script"),
        ("{}", "must be a list"),
        ("[{}]", "reply 1 of the script"),
        ('["a", {"say": "b"}]', "reply 2 of the script"),
        ('[{"calls": [{}]}]', "reply 1 of the script"),
    ],
)
def test_a_malformed_script_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """The message names the reply."""
    (tmp_path / "script.yaml").write_text(text)

    with pytest.raises(InvalidInputError, match=says):
        ScriptedModel.from_file(tmp_path / "script.yaml")


def test_a_malformed_recording_is_refused(tmp_path: Path) -> None:
    """The message names the line."""
    line = json.dumps({"request": "digest", "response": {}})
    (tmp_path / "recording.jsonl").write_text(f"{line}\n[]\n")

    with pytest.raises(InvalidInputError, match="line 2 is not valid"):
        ReplayedModel(tmp_path / "recording.jsonl")
    with pytest.raises(InvalidInputError, match="No such file"):
        ReplayedModel(tmp_path / "missing.jsonl")


def test_a_model_that_adk_does_not_know_is_refused() -> None:
    """By its name."""
    with pytest.raises(InvalidInputError, match="ADK has no model 'nothing'"):
        as_model("nothing")
