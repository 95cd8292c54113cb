"""Keep a session's variables in the state that ADK has of it, and within bounds.

ADK's state knows no removal: a removed variable is None there, and a mark beside it, ``ces_removed:{name}``
in the same scope, tells it from a variable that was set to None. Both are written by one event. Marks are
keys of their own, so writers whose changes are merged key by key do not undo each other's.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from google.adk.sessions import State

from gcp_adk_store.ces.host.settings import RuntimeSettings
from gcp_adk_store.errors import InvalidInputError

MARK: Final = "ces_removed:"

_SHARED: Final = (State.APP_PREFIX, State.USER_PREFIX)


class VariablesTooLargeError(InvalidInputError):
    """A run sets more than a session, a user or an app may have of variables; nothing was stored."""


def visible(state: Mapping[str, Any], *, shared: Collection[str]) -> dict[str, Any]:
    """Return the variables of *state* that code sees: those of users and apps if *shared* has their names."""
    return {
        name: value
        for name, value in state.items()
        if not is_mark(name)
        and not (value is None and state.get(_mark(name)) is True)
        and (name in shared or not name.startswith(_SHARED))
    }


def fitting(variables: Mapping[str, Any], settings: RuntimeSettings, warnings: list[str]) -> dict[str, Any]:
    """Return those of *variables* that a run is sent: as many as each scope may have, the smallest first.

    Args:
        variables: As JSON; other writers may have set more than runs may.
        settings: With the bounds.
        warnings: Gets how many are left out of which scope.
    """
    left = {scope: [most, settings.variables_per_scope] for scope, (most, _) in _bounds(settings).items()}
    sizes = {name: bytes_of(name, value) for name, value in variables.items()}
    left_out: Counter[str] = Counter()
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        room = left.get(scope := _scope(name)[0])
        if room is None:
            continue
        if sizes[name] > room[0] or room[1] < 1:
            room[0] = 0  # the larger ones do not fit either
            left_out[scope] += 1
            sizes[name] = -1
        else:
            room[0] -= sizes[name]
            room[1] -= 1
    for scope, (most, setting) in _bounds(settings).items():
        if left_out[scope]:
            warnings.append(
                f"{left_out[scope]} variables are not sent to the code: with them {_whose(scope)} has more "
                f"than the {most} bytes of {setting}, or the {settings.variables_per_scope} names of "
                "variables_per_scope; code can remove or set them"
            )
    return {name: value for name, value in variables.items() if sizes[name] >= 0}


def state_delta(
    changed: Mapping[str, Any], removed: Sequence[str], state: Mapping[str, Any], settings: RuntimeSettings
) -> dict[str, Any]:
    """Return what an event changes of *state*, so that variables are *changed* and *removed*.

    Raises:
        InvalidInputError: a name is the runtime's own, or of others and not in ``shared_variables``.
        VariablesTooLargeError: a scope grows, and has more than it may then.
    """
    for name in (*changed, *removed):
        if is_mark(name):
            raise InvalidInputError(
                f"a variable cannot have the name {name[:100]!r}: marks of removals have such"
            )
        if name.startswith(_SHARED) and name not in settings.shared_variables:
            raise InvalidInputError(
                f"code may not change the variable {name[:100]!r}: shared_variables does not name it"
            )
    delta: dict[str, Any] = {}
    for name, value in changed.items():
        delta[name] = value
        if state.get(_mark(name)) is True:
            delta[_mark(name)] = False
    for name in removed:
        delta[name] = None
        delta[_mark(name)] = True
    for scope in {_scope(name)[0] for name in delta} & _bounds(settings).keys():
        _require_room(scope, state, delta, settings)
    return delta


def _require_room(
    scope: str, state: Mapping[str, Any], delta: Mapping[str, Any], settings: RuntimeSettings
) -> None:
    """Raise an error if *delta* makes the variables of *scope* more than they may be.

    A scope that has more already, by another writer, takes what makes it no larger. So code can delete.
    """
    before, after = (
        {
            name: bytes_of(name, value)
            for name, value in each.items()
            if _scope(name)[0] == scope and not is_mark(name)
        }
        for each in (state, {**state, **delta})
    )
    most, setting = _bounds(settings)[scope]
    size = sum(after.values())
    if size > most and size > sum(before.values()):
        raise VariablesTooLargeError(
            f"the variables of {_whose(scope)} would have {size} bytes of JSON, more than the {most} of "
            f"{setting}; remove some, or make them smaller"
        )
    if len(after) > settings.variables_per_scope and len(after) > len(before):
        raise VariablesTooLargeError(
            f"{_whose(scope)} would have {len(after)} names of variables, with those of removed ones, more "
            f"than the {settings.variables_per_scope} of variables_per_scope; use names again"
        )


def bytes_of(name: str, value: Any) -> int:
    """Return the bytes of a variable in a run's request, about; a removed one is None and has its name's."""
    if value is None:
        return len(json.dumps(name))
    try:
        return len(json.dumps(name)) + len(json.dumps(value, default=str))
    except (TypeError, ValueError, RecursionError):  # of another writer; code is not sent it
        return len(json.dumps(name))


def is_mark(name: str) -> bool:
    """Whether *name* is of a mark, and no variable's."""
    return _scope(name)[1].startswith(MARK)


def fleeting(names: Sequence[str]) -> list[str]:
    """Return those of *names* that ADK never stores."""
    return [name for name in names if name.startswith(State.TEMP_PREFIX)]


def _bounds(settings: RuntimeSettings) -> dict[str, tuple[int, str]]:
    """Return the bytes that each stored scope may have, and the name of the setting."""
    return {
        scope: (getattr(settings, setting), setting)
        for scope, setting in (
            ("", "session_variables_bytes"),
            (State.USER_PREFIX, "user_variables_bytes"),
            (State.APP_PREFIX, "app_variables_bytes"),
        )
    }


def _whose(scope: str) -> str:
    return f"the {scope.rstrip(':') or 'session'}"


def _mark(name: str) -> str:
    scope, rest = _scope(name)
    return f"{scope}{MARK}{rest}"


def _scope(name: str) -> tuple[str, str]:
    for prefix in (*_SHARED, State.TEMP_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
