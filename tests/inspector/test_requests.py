"""What a model was asked is beside what it answered."""

import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from fastapi import FastAPI
from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.run_config import RunConfig
from google.adk.events import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

from gcp_adk_store import Store, UnavailableError
from tests.inspector.story import CALM, CALM_PLACE, PNG, seen
from tests.support.documents import names_of

NAME = "model-request.json"


def find_parcel(number: int) -> str:
    """Find a parcel."""
    return f"parcel {number} is in Oslo"


class Parcels(BaseLlm):
    """A model that calls its tool once, answers in two pieces, and may fail instead."""

    model: str = "parcels"
    fails: bool = False

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # ADK's signature
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer."""
        assert stream
        if self.fails:
            raise ConnectionError("no answer")
        if llm_request.contents[-1].parts[-1].function_response:  # type: ignore[index]  # it has parts
            yield LlmResponse(content=types.ModelContent("It is "), partial=True)
            yield LlmResponse(content=types.ModelContent("It is in Oslo."))
            return
        call = types.Part(function_call=types.FunctionCall(name="find_parcel", args={"number": 7}))
        yield LlmResponse(content=types.ModelContent(call))


def secret(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
    """Change the request as the last one, and give it a header that nobody may see."""
    assert callback_context.agent_name == "support"
    llm_request.append_instructions(["Be kind. \ud800"])
    llm_request.config.http_options = types.HttpOptions(headers={"Authorization": "Bearer secret"})


async def events_of(store: Store, **model: Any) -> list[Event]:
    """Run a turn of an agent by the runner of the document, with a picture in its message."""
    agent = LlmAgent(
        name="support",
        model=Parcels(**model),
        instruction="You find parcels.",
        tools=[find_parcel],
        before_model_callback=secret,
    )
    names = names_of("docs/inspector.md", 0)
    runner = names["runner_of"](store, agent)
    picture = types.Part.from_bytes(data=PNG, mime_type="image/png")
    message = types.UserContent([types.Part(text="Where is it?"), picture])
    config = RunConfig.model_validate({"streaming_mode": "sse"})
    run = runner.run_async(user_id="ada", session_id="s1", new_message=message, run_config=config)
    return [event async for event in run]


async def request_of(store: Store, version: int) -> dict[str, Any]:
    """Return a saved request."""
    part = await store.artifacts.load_artifact(**CALM, filename=NAME, version=version)
    assert part is not None
    asked: dict[str, Any] = json.loads(part.inline_data.data)  # type: ignore[union-attr, arg-type]
    return asked


async def test_each_answer_has_the_request_that_was_sent(store: Store) -> None:
    """As the last callback left it, once for an answer in pieces, without headers and bytes."""
    events = [event for event in await events_of(store) if not event.partial]
    first, second = [await request_of(store, version) for version in (0, 1)]
    versions = await store.artifacts.list_versions(**CALM, filename=NAME)

    assert [{NAME: 0}, {}, {NAME: 1}] == [event.actions.artifact_delta for event in events]
    assert [0, 1] == versions
    assert "parcels" == first["model"]
    assert "You find parcels." in first["config"]["system_instruction"]
    assert "Be kind. \ud800" in first["config"]["system_instruction"]
    assert "find_parcel" == first["config"]["tools"][0]["function_declarations"][0]["name"]
    assert ["Where is it?", f"{len(PNG)} bytes"] == [
        part.get("text") or part["inline_data"]["data"] for part in first["contents"][0]["parts"]
    ]
    assert (1, 3) == (len(first["contents"]), len(second["contents"]))
    assert "secret" not in json.dumps([first, second])


async def test_the_request_that_failed_is_there(store: Store) -> None:
    """No event names it, so the list of artifacts does."""
    with pytest.raises(ConnectionError, match="no answer"):
        await events_of(store, fails=True)

    assert "You find parcels." in str(await request_of(store, 0))


async def test_a_turn_goes_on_without_its_request(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If the bucket does not answer."""

    async def refuse(*args: object, **given: object) -> int:
        assert args or given
        raise UnavailableError("no bucket")

    monkeypatch.setattr(store.artifacts, "save_artifact", refuse)
    events = await events_of(store)

    assert "It is in Oslo." == events[-1].content.parts[0].text  # type: ignore[union-attr, index]
    assert "a request to a model was not saved: UnavailableError" in caplog.text


async def test_an_event_leads_to_its_request(store: Store, app: FastAPI, masked: FastAPI) -> None:
    """Which is masked as any artifact."""
    await events_of(store)
    conversation = await seen(app, "session", CALM_PLACE)
    links = conversation.links(part=NAME)
    new = [link for link in links if "against=0" in link]
    timeline = await seen(app, "timeline", CALM_PLACE)
    spans = timeline.links(part=NAME)
    shown = await seen(app, "artifact", {**CALM_PLACE, "name": NAME, "version": 1, "against": 0})
    covered = await seen(masked, "artifact", {**CALM_PLACE, "name": NAME, "version": 1})

    assert (3, 1) == (len(links), len(new))
    assert ["0", "1"] == [link.rpartition("version=")[2] for link in spans]
    assert conversation.text.count("The request to the model") == 2
    assert "find_parcel" in shown.text
    assert "find_parcel" not in covered.text
