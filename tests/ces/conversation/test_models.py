"""Scripts reply in order."""

from pathlib import Path

import pytest

from gcp_adk_store import InvalidInputError
from gcp_adk_store.ces import ScriptedModel
from tests.ces.conversation.apps import write_app
from tests.ces.conversation.conftest import Converse


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
