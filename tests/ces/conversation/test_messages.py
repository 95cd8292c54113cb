"""A message may bring variables along, and answers in place of tools, for its turn alone."""

from pathlib import Path

from gcp_adk_store import Store
from gcp_adk_store.ces import MockConfig
from gcp_adk_store.settings import MEMORY
from tests.ces.conversation.apps import write_app
from tests.ces.conversation.conftest import Converse

GREET = "def greet():\n    return get_variable('name')\n"
CALL = {"calls": [{"name": "greet"}]}


async def test_a_message_brings_variables_along(tmp_path: Path, converse: Converse) -> None:
    """Which stay, as those that code sets; in a turn of the store too."""
    app = write_app(
        tmp_path,
        {"root": {"tools": ["greet"], "instruction": "Greet {name}."}},
        tools={"greet": GREET},
        variables={"name": "nobody"},
    )
    async with Store.local(MEMORY) as store:
        conversation = converse(app, [CALL, "Hi.", CALL, "Hi."], sessions=store.sessions, turns=store.turns)
        key = await conversation.begin()

        first = await conversation.send("I am Ada.", key, variables={"name": "Ada"})
        second = await conversation.send("Again", key)

        assert [turn.calls[0].response for turn in (first, second)] == [{"result": "Ada"}] * 2
        assert second.variables["name"] == "Ada"


async def test_mocks_of_a_message_answer_in_its_turn_alone(tmp_path: Path, converse: Converse) -> None:
    """Before those of the conversation."""
    app = write_app(tmp_path, {"root": {"tools": ["greet"]}}, tools={"greet": GREET})
    conversation = converse(app, [CALL, "Hi.", CALL, "Hi."], mocks=_answering("always"))
    key = await conversation.begin()

    first = await conversation.send("Hi", key, mocks=_answering("once"))
    second = await conversation.send("Hi", key)

    assert [turn.calls[0].response for turn in (first, second)] == [{"result": "once"}, {"result": "always"}]


def _answering(said: str) -> MockConfig:
    return MockConfig.from_json({"mockedToolCalls": [{"toolId": "greet", "mockResponse": {"result": said}}]})
