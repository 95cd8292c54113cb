"""State what ADK asks of a memory service as a suite to inherit."""

import pytest
from google.adk.events import Event
from google.adk.memory import BaseMemoryService
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store.testing.conformance.running import Ids, OfAnApp, in_loops_of_their_own


@in_loops_of_their_own
class MemoryServiceConformance(OfAnApp):
    """What ADK asks of a memory service, as tests that a subclass inherits.

    ::

        class TestMyMemories(MemoryServiceConformance):
            @pytest.fixture
            def memory_service(self) -> BaseMemoryService:
                return MyMemoryService()

    The fixture is as that of :class:`SessionServiceConformance`. Only what ADK's own service in memory does
    is tested, as of google-adk 2.13.
    """

    async def test_a_memory_of_any_session_is_found(
        self, memory_service: BaseMemoryService, user: Ids
    ) -> None:
        """By a word of it, with its id, content, author and time."""
        rex = _said("My dog is called Rex", at=1e9)
        await memory_service.add_session_to_memory(_session(user, "a", rex))
        await memory_service.add_session_to_memory(_session(user, "b", _said("I live in Berlin")))
        (found,) = (await memory_service.search_memory(**user, query="dog")).memories

        assert (rex.id, rex.content, "user") == (found.id, found.content, found.author)
        assert found.timestamp is not None
        assert found.timestamp.startswith("2001-09-0")

    async def test_nothing_fits_what_was_never_said(
        self, memory_service: BaseMemoryService, user: Ids
    ) -> None:
        """Nor does a user without memories have any."""
        assert [] == (await memory_service.search_memory(**user, query="dog")).memories
        await memory_service.add_session_to_memory(_session(user, "a", _said("I live in Berlin")))

        assert [] == (await memory_service.search_memory(**user, query="dog")).memories
        assert [] == (await memory_service.search_memory(**user, query="")).memories

    @pytest.mark.parametrize("other", ["app_name", "user_id"])
    async def test_others_do_not_find_it(
        self, memory_service: BaseMemoryService, user: Ids, other: str
    ) -> None:
        """Another user of the app, or the same user of another app."""
        await memory_service.add_session_to_memory(_session(user, "a", _said("My dog")))
        stranger = {**user, other: f"{user[other]}-other"}

        assert [] == (await memory_service.search_memory(**stranger, query="dog")).memories

    async def test_a_session_may_be_added_many_times(
        self, memory_service: BaseMemoryService, user: Ids
    ) -> None:
        """Each of its events is one memory."""
        first, second = _said("My dog is old"), _said("My dog is grey")
        await memory_service.add_session_to_memory(_session(user, "a", first))
        await memory_service.add_session_to_memory(_session(user, "a", first, second))
        await memory_service.add_session_to_memory(_session(user, "a", first, second))
        found = (await memory_service.search_memory(**user, query="dog")).memories

        assert {first.id, second.id} == {one.id for one in found}
        assert 2 == len(found)

    async def test_events_are_added_to_those_before(
        self, memory_service: BaseMemoryService, user: Ids
    ) -> None:
        """They do not replace them, and are not added twice."""
        first, second = _said("My dog is old"), _said("My dog is grey")
        for events in ([first], [second], [first, second]):
            await memory_service.add_events_to_memory(**user, events=events, session_id="a")

        assert 2 == len((await memory_service.search_memory(**user, query="dog")).memories)

    async def test_the_text_with_more_words_comes_first(
        self, memory_service: BaseMemoryService, user: Ids
    ) -> None:
        """And ten at most."""
        events = [_said(f"a dog {number}") for number in range(15)]
        await memory_service.add_session_to_memory(_session(user, "a", *events, _said("a grey dog barks")))
        found = (await memory_service.search_memory(**user, query="grey dog")).memories

        assert 10 == len(found)
        assert "a grey dog barks" == _text(found[0].content)

    async def test_words_of_other_scripts_are_found(
        self, memory_service: BaseMemoryService, user: Ids
    ) -> None:
        """Case does not count."""
        for text in ("Я живу в Москве", "私はPythonを使う", "Ich mag KÄSE"):
            await memory_service.add_session_to_memory(_session(user, text, _said(text)))
        for query, text in (
            ("МОСКВЕ", "Я живу в Москве"),
            ("python", "私はPythonを使う"),
            ("käse", "Ich mag KÄSE"),
        ):
            (found,) = (await memory_service.search_memory(**user, query=query)).memories
            assert text == _text(found.content)

    async def test_what_was_deleted_does_not_come_back(
        self, memory_service: BaseMemoryService, user: Ids
    ) -> None:
        """When its session is added again, or the event alone; a missing memory is accepted."""
        first, second = _said("My dog is old"), _said("My dog is grey")
        await memory_service.add_session_to_memory(_session(user, "a", first, second))
        await memory_service.delete_memory(**user, memory_id=first.id)
        await memory_service.delete_memory(**user, memory_id="unknown")
        await memory_service.delete_memory(**user)
        await memory_service.add_session_to_memory(_session(user, "a", first, second))
        await memory_service.add_events_to_memory(**user, events=[first], session_id="a")
        found = (await memory_service.search_memory(**user, query="dog")).memories

        assert [second.id] == [one.id for one in found]

    async def test_events_without_content_are_accepted(
        self, memory_service: BaseMemoryService, user: Ids
    ) -> None:
        """They are not remembered."""
        await memory_service.add_session_to_memory(_session(user, "a", Event(author="user"), _said("a dog")))

        assert 1 == len((await memory_service.search_memory(**user, query="dog")).memories)


def _said(text: str, *, at: float | None = None) -> Event:
    made = Event(author="user", content=types.Content(role="user", parts=[types.Part(text=text)]))
    if at is not None:
        made.timestamp = at
    return made


def _session(user: Ids, session_id: str, *events: Event) -> Session:
    return Session(id=session_id, events=list(events), **user)


def _text(content: types.Content) -> str | None:
    return content.parts[0].text if content.parts else None
