"""Expect ADK's services to fail where they are known to, and to fail nowhere else."""

from collections.abc import Generator, Mapping
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """How a service fails one test of a suite."""

    reason: str
    fails: str
    """What the failure says, as a regular expression."""


Divergences = Mapping[str, Divergence]
"""By a test's name, or by its name with parameters where only some of them fail."""


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Turn a suite's known failures into passes, and their absence into failures."""
    known: Divergences = getattr(pyfuncitem.cls, "DIVERGENCES", {})
    divergence = known.get(pyfuncitem.name) or known.get(pyfuncitem.originalname)
    if divergence is None:
        return (yield)
    # What pytest.raises and pytest.fail raise is no Exception.
    with pytest.raises((Exception, pytest.fail.Exception), match=divergence.fails):
        yield
    return True


def unknown_names(suite: type) -> set[str]:
    """Return the names among the divergences of *suite* that none of its tests has."""
    known: Divergences = getattr(suite, "DIVERGENCES", {})
    return {name for name in known if not callable(getattr(suite, name.partition("[")[0], None))}
