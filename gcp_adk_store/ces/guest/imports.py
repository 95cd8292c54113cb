"""Let code import what the platform has, and nothing else that happens to be installed."""

import builtins
import sys
from collections.abc import Callable, Collection, Sequence
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
    missing = missing_module(name, members, importable=importable, standard=sys.stdlib_module_names)
    if missing is None:
        return
    if missing.startswith(f"{name}."):
        member = missing.removeprefix(f"{name}.")
        raise ImportError(f"cannot import name {member!r} from {name!r}", name=name)
    raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)


def missing_module(
    name: str, members: Sequence[str], *, importable: Sequence[str], standard: Collection[str]
) -> str | None:
    """Return what ``import name``, or ``from name import members``, does not find; None if it finds all.

    Args:
        name: A dotted name.
        members: The imported names; empty for ``import name``.
        importable: Dotted names; the names below them are importable too.
        standard: The top-level modules of the standard library.
    """

    def is_within(name: str) -> bool:
        return any(name == known or name.startswith(f"{known}.") for known in importable)

    def leads(name: str) -> bool:
        return any(known.startswith(f"{name}.") for known in importable)

    top = name.partition(".")[0]
    if top in standard or is_within(name):
        return None
    if not leads(name):
        return name if leads(top) else top
    found = (f"{name}.{member}" for member in members)
    return next((each for each in found if not is_within(each) and not leads(each)), None)
