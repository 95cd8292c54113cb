"""Convert arguments to what a function's annotations say, where they came as protobuf numbers."""

import inspect
import typing
from collections.abc import Callable
from typing import Any

import pydantic


def coerce(function: Callable[..., Any], args: dict[str, Any], warn: Callable[[str], None]) -> dict[str, Any]:
    """Return *args* in the types that *function* is annotated with.

    What cannot be converted stays as it is, with a warning.

    Args:
        function: Of user code.
        args: Its arguments by name.
        warn: Gets what could not be done.
    """
    try:
        hints = typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as exc:
        warn(f"{getattr(function, '__name__', function)}: its annotations cannot be read ({exc})")
        return args
    return {name: _coerced(name, value, hints.get(name, Any), warn) for name, value in args.items()}


def _coerced(name: str, value: Any, hint: Any, warn: Callable[[str], None]) -> Any:
    try:
        return pydantic.TypeAdapter(hint).validate_python(value)
    except pydantic.ValidationError as exc:
        warn(f"argument {name!r} stays {type(value).__name__}: {exc.errors()[0]['msg']}")
    except pydantic.errors.PydanticUserError as exc:
        warn(f"argument {name!r} stays {type(value).__name__}: {exc.message}")
    return value
