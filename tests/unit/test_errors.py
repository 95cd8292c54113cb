"""Show that errors are sorted as their module draws them, are ADK's too, and survive pickle."""

import pickle
import re

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

import gcp_adk_store
from gcp_adk_store import (
    InvalidInputError,
    OutcomeUnknownError,
    SessionConflictError,
    SessionExistsError,
    SessionMissingError,
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
ADK_TWINS: list[tuple[type[StoreError], type[Exception]]] = [
    (InvalidInputError, InputValidationError),
    (SessionMissingError, SessionNotFoundError),
    (SessionExistsError, AlreadyExistsError),
    (SessionConflictError, StaleSessionError),
    (errors.TurnLostError, StaleSessionError),
]


def test_the_drawing_shows_every_error() -> None:
    """The tree in the module's docstring leaves out no error and invents none."""
    assert sorted([*DRAWN, "StoreError"]) == sorted(ALL)


@pytest.mark.parametrize("name", DRAWN)
def test_an_error_hangs_where_it_is_drawn(name: str) -> None:
    """Each branch of the tree is a direct child of the root, or of the branch that it is drawn below."""
    parent = BRANCHES.get(name, StoreError)
    assert parent is getattr(errors, name).__bases__[0]


@pytest.mark.parametrize(("ours", "adks"), ADK_TWINS)
def test_a_caller_of_adk_catches_ours(ours: type[StoreError], adks: type[Exception]) -> None:
    """Code written against ADK's own services handles this library's errors."""
    with pytest.raises(adks, match="what happened") as caught:
        raise ours("what happened", operation="append_event", key="k")

    assert ours is caught.type


def test_only_the_drawn_errors_are_adks() -> None:
    """An error that ADK has no word for is not mistaken for one of ADK's."""
    adks = tuple(adk for _, adk in ADK_TWINS)
    found = [name for name in ALL if issubclass(getattr(errors, name), adks)]

    assert sorted(ours.__name__ for ours, _ in ADK_TWINS) == sorted(found)


@pytest.mark.parametrize("error", [InvalidInputError, SessionExistsError])
def test_adks_message_attribute_is_filled(error: type[StoreError]) -> None:
    """ADK's HTTP server, which reads ``message``, answers with the real one."""
    assert "id s is taken" == getattr(error("id s is taken"), "message", None)


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


def test_an_error_without_context_says_so() -> None:
    """Operation and key are empty, not missing, where there is none."""
    error = UnavailableError("later")

    assert ("", "") == (error.operation, error.key)


def test_an_unknown_outcome_is_not_safe_to_retry() -> None:
    """Whoever retries on "unavailable" never repeats a write that may have been applied."""
    related = (
        issubclass(OutcomeUnknownError, UnavailableError),
        issubclass(UnavailableError, OutcomeUnknownError),
    )

    assert (False, False) == related


@pytest.mark.parametrize("name", ALL)
def test_an_error_is_importable_from_the_package(name: str) -> None:
    """A user catches every error without knowing the module that defines it."""
    assert getattr(errors, name) is getattr(gcp_adk_store, name)
    assert name in gcp_adk_store.__all__


def test_public_names_are_sorted() -> None:
    """The list of public names reads like an index and names each once."""
    assert sorted(set(gcp_adk_store.__all__)) == gcp_adk_store.__all__
