"""A package imports the names that it offers at their first use."""

from types import ModuleType

import pytest

import gcp_adk_store.adk_server
import gcp_adk_store.ces
import gcp_adk_store.inspector
import gcp_adk_store.tasks
import gcp_adk_store.turns


@pytest.mark.parametrize(
    "package",
    [
        gcp_adk_store,
        gcp_adk_store.adk_server,
        gcp_adk_store.ces,
        gcp_adk_store.inspector,
        gcp_adk_store.tasks,
        gcp_adk_store.turns,
    ],
    ids=lambda each: each.__name__,
)
def test_a_package_has_its_public_names_and_no_other(package: ModuleType) -> None:
    """All that ``import *`` promises, listed before its first use; another is an error with both names."""
    assert sorted(package.__all__) == dir(package)
    assert all(hasattr(package, name) for name in package.__all__)
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nobody'"):
        package.nobody  # noqa: B018  # the access is what fails
