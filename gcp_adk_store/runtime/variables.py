"""Keep a session's variables in the state that ADK has of it.

ADK's state knows no removal: a removed variable is None there, and a mark beside it, ``ces_removed:{name}``
in the same scope, tells it from a variable that was set to None. Both are written by one event. Marks are
keys of their own, so writers whose changes are merged key by key do not undo each other's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.adk.sessions import State

from gcp_adk_store.errors import InvalidInputError

MARK: Final = "ces_removed:"

_SHARED: Final = (State.APP_PREFIX, State.USER_PREFIX)


def visible(state: Mapping[str, Any], *, shared: bool) -> dict[str, Any]:
    """Return the variables of *state*: without removed ones, and without those of others unless *shared*."""
    return {
        name: value
        for name, value in state.items()
        if not is_mark(name)
        and not (value is None and state.get(_mark(name)) is True)
        and (shared or not name.startswith(_SHARED))
    }


def state_delta(
    changed: Mapping[str, Any], removed: Sequence[str], state: Mapping[str, Any], *, shared: bool
) -> dict[str, Any]:
    """Return what an event changes of *state*, so that variables are *changed* and *removed*.

    Raises:
        InvalidInputError: a name is the runtime's own, or of others though they are not *shared*.
    """
    for name in (*changed, *removed):
        if is_mark(name):
            raise InvalidInputError(
                f"a variable cannot have the name {name[:100]!r}: marks of removals have such"
            )
        if not shared and name.startswith(_SHARED):
            raise InvalidInputError(f"the variable {name[:100]!r} is shared, and shared_variables is off")
    delta: dict[str, Any] = {}
    for name, value in changed.items():
        delta[name] = value
        if state.get(_mark(name)) is True:
            delta[_mark(name)] = False
    for name in removed:
        delta[name] = None
        delta[_mark(name)] = True
    return delta


def is_mark(name: str) -> bool:
    """Whether *name* is of a mark, and no variable's."""
    return _scope(name)[1].startswith(MARK)


def fleeting(names: Sequence[str]) -> list[str]:
    """Return those of *names* that ADK never stores."""
    return [name for name in names if name.startswith(State.TEMP_PREFIX)]


def _mark(name: str) -> str:
    scope, rest = _scope(name)
    return f"{scope}{MARK}{rest}"


def _scope(name: str) -> tuple[str, str]:
    for prefix in (*_SHARED, State.TEMP_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
