"""Gather what ADK asks of a session service into one suite to inherit."""

import pytest

from gcp_adk_store.testing.conformance.running import Ids, OfAnApp
from gcp_adk_store.testing.conformance.session_appends import AppendingEvents, WritingTogether
from gcp_adk_store.testing.conformance.session_lives import (
    CreatingSessions,
    DeletingSessions,
    ListingSessions,
)
from gcp_adk_store.testing.conformance.session_state import KeepingState, ReadingSessions


class SessionServiceConformance(
    OfAnApp,
    CreatingSessions,
    ReadingSessions,
    KeepingState,
    AppendingEvents,
    WritingTogether,
    ListingSessions,
    DeletingSessions,
):
    """What ADK asks of a session service, as tests that a subclass inherits.

    ::

        class TestMySessions(SessionServiceConformance):
            @pytest.fixture
            def session_service(self) -> BaseSessionService:
                return MySessionService()

    The one fixture gives the service to test. It may be of any scope, and hold data already: every test
    uses an app of its own. Plugins are not needed: tests are plain functions, and each runs in a new
    event loop, as ``Runner.run()`` does. A service that must be opened in the loop that uses it is
    given as an asynchronous context manager, which the test enters and leaves::

        @pytest.fixture
        def session_service(self) -> AbstractAsyncContextManager[BaseSessionService]:
            return opened_service()  # an @asynccontextmanager

    A fixture that a plugin makes asynchronous serves as well, if its service outlives its loop.

    Only ADK's contract is tested, as of google-adk 2.13, with imports that 2.8 has. A subclass adds
    tests of its own and silences none.
    """

    @pytest.fixture
    def who(self, user: Ids) -> Ids:
        """A session of :meth:`user`, not made yet."""
        return {**user, "session_id": "session"}
