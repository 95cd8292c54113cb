"""Import the names of a package at their first use, and name the command that installs an extra.

Some that import a package need little of it: pytest loads this one's plugin in every run of its environment,
the emulators and the guest of user code lie below, and the log formatter needs no server. They do not wait
for ADK and Google's clients.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def importer(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the function ``__getattr__`` of *package*.

    Args:
        package: The package's ``__name__``.
        homes: The names that it offers, by the module below it that has them.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def __getattr__(name: str) -> Any:  # noqa: N807  # the package's
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{home_of[name]}"), name)

    return __getattr__


def how_to_install(extra: str) -> str:
    """Return the command that installs *extra*.

    It names the path of a clone: the package index does not have this package, and a stranger may take its
    name there.
    """
    return f"pip install '.[{extra}]' in a clone of its repository"
