"""A package imports the names that it offers at their first use."""

from types import ModuleType

import pytest

import gcp_adk_store.adk_server
import gcp_adk_store.ces
import gcp_adk_store.inspector
import gcp_adk_store.tasks
import gcp_adk_store.turns

PACKAGES = pytest.mark.parametrize(
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


@PACKAGES
def test_every_name_of_a_package_is_there(package: ModuleType) -> None:
    """All that ``import *`` promises."""
    assert package.__all__
    assert all(hasattr(package, name) for name in package.__all__)


@PACKAGES
def test_another_name_is_an_attribute_error(package: ModuleType) -> None:
    """As for any module, with both names."""
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'nobody'"):
        package.nobody  # noqa: B018  # the access is what fails


@PACKAGES
def test_an_editor_lists_the_public_names_alone(package: ModuleType) -> None:
    """Also before their first use, and nothing that the package imports for itself."""
    assert sorted(package.__all__) == dir(package)
