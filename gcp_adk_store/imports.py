"""Import the names of a package at their first use, and name the command that installs an extra.

Some that import a package need little of it: pytest loads this one's plugin in every run of its environment,
the emulators and the guest of user code lie below, and the log formatter needs no server. They do not wait
for ADK and Google's clients.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def offer(package: str, homes: Mapping[str, Sequence[str]]) -> None:
    """Let *package* import its names at their first use, and list ``__all__`` alone to an editor.

    It sets ``__getattr__`` and ``__dir__`` of the package. Type checkers do not see that: they refuse a name
    that the package does not import for them.

    Args:
        package: The package's ``__name__``.
        homes: The names that it offers, by the module below it that has them.
    """
    home_of = {name: home for home, names in homes.items() for name in names}
    module = sys.modules[package]

    def import_name(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)

    def list_names() -> list[str]:
        return [*module.__all__]

    vars(module).update(__getattr__=import_name, __dir__=list_names)


def how_to_install(extra: str) -> str:
    """Return the command that installs *extra*.

    It names the path of a clone: the package index does not have this package, and a stranger may take its
    name there.
    """
    return f"pip install '.[{extra}]' in a clone of its repository"
