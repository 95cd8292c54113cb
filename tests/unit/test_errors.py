"""Show that errors are sorted as their module draws them, and survive pickle.

tests/project/test_documents_for_readers.py compares what they are of ADK's with the page of errors.
"""

import pickle
import re

import pytest

import gcp_adk_store
from gcp_adk_store import (
    InvalidInputError,
    SessionConflictError,
    SessionExistsError,
    StoreError,
    UnavailableError,
    errors,
)

ALL = sorted(
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, StoreError)
)
DRAWN = re.findall(r"^[ │]*[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE)
BRANCHES = {
    "CredentialsError": errors.AccessDeniedError,
    "EmulatorMissingError": UnavailableError,
    "KeyDestroyedError": errors.StoredDataError,
    "OverloadedError": UnavailableError,
    "PayloadMissingError": errors.StoredDataError,
    "TurnLostError": SessionConflictError,
}


def test_the_drawing_shows_every_error_where_it_hangs() -> None:
    """In the module's docstring; each hangs below the root, or the branch it is drawn below."""
    assert sorted([*DRAWN, "StoreError"]) == sorted(ALL)
    assert {name: BRANCHES.get(name, StoreError) for name in DRAWN} == {
        name: getattr(gcp_adk_store, name).__bases__[0] for name in DRAWN
    }


@pytest.mark.parametrize("error", [InvalidInputError, SessionExistsError])
def test_adks_message_attribute_is_filled(error: type[StoreError]) -> None:
    """ADK's HTTP server, which reads ``message``, answers with the real one."""
    assert "id s is taken" == getattr(error("id s is taken"), "message", None)


def test_an_error_of_an_operation_without_ids_begins_with_its_name() -> None:
    """Such as that of a check of all sessions."""
    assert "check: it is gone" == str(StoreError("it is gone", operation="check"))


@pytest.mark.parametrize("name", ALL)
def test_an_error_survives_pickle(name: str) -> None:
    """Type, text, which begins with the operation, and what else it carries cross a process boundary."""
    error = getattr(errors, name)("the message", operation="save_artifact", key="app='a'")
    error.attempts, error.retry_after_s = 3, 1.5
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301  # pickled one line above

    assert (type(error), "save_artifact app='a': the message") == (type(copy), str(copy))
    assert ("save_artifact", "app='a'", 3, 1.5) == (
        copy.operation,
        copy.key,
        copy.attempts,
        copy.retry_after_s,
    )
