"""Expect ADK's services to fail where they are known to, and to fail nowhere else."""

from collections.abc import Generator, Mapping

import pytest

Divergences = Mapping[str, str]
"""What a failure says, as a regular expression, by a test's name.

With the name's parameters where only some of them fail.
"""


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Turn a suite's known failures into passes, and their absence into failures."""
    known: Divergences = getattr(pyfuncitem.cls, "DIVERGENCES", {})
    fails = known.get(pyfuncitem.name) or known.get(pyfuncitem.originalname)
    if fails is None:
        return (yield)
    # What pytest.raises and pytest.fail raise is no Exception.
    with pytest.raises((Exception, pytest.fail.Exception), match=fails):
        yield
    return True


def unknown_names(suite: type) -> set[str]:
    """Return the names among the divergences of *suite* that none of its tests has."""
    known: Divergences = getattr(suite, "DIVERGENCES", {})
    return {name for name in known if not callable(getattr(suite, name.partition("[")[0], None))}
