"""Let code import what the platform has, and nothing else that happens to be installed."""

import builtins
import sys
from collections.abc import Callable, Sequence
from typing import Any


def import_gate(importable: Sequence[str]) -> Callable[..., Any]:
    """Return an ``__import__`` for the standard library and *importable* alone.

    It says of everything else what Python says of a module that is not installed. It keeps honest code
    honest; what must not be reached has to be absent.

    Args:
        importable: Dotted names; what is below them is importable too.
    """

    def find(
        name: str,
        globals: Any = None,  # noqa: A002  # as Python calls it
        locals: Any = None,  # noqa: A002  # likewise
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        if level == 0:
            _check(name, fromlist or (), importable)
        return builtins.__import__(name, globals, locals, fromlist or (), level)

    return find


def _check(name: str, members: Sequence[str], importable: Sequence[str]) -> None:
    if _is_within(name, importable):
        return
    if not any(known.startswith(f"{name}.") for known in importable):
        missing = name if _leads(name.partition(".")[0], importable) else name.partition(".")[0]
        raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
    for member in members:
        if not _is_within(f"{name}.{member}", importable) and not _leads(f"{name}.{member}", importable):
            raise ImportError(f"cannot import name {member!r} from {name!r}", name=name)


def _is_within(name: str, importable: Sequence[str]) -> bool:
    return name.partition(".")[0] in sys.stdlib_module_names or any(
        name == known or name.startswith(f"{known}.") for known in importable
    )


def _leads(name: str, importable: Sequence[str]) -> bool:
    return any(known.startswith(f"{name}.") for known in importable)
