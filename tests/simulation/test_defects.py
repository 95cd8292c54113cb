"""The defects of ``make defects`` fit the package as it is."""

import pytest

from tests.simulation.defects import DEFECTS, Defect
from tests.simulation.hunt import ROOT, changed
from tests.simulation.workloads import WORKLOADS


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_has_its_place(defect: Defect) -> None:
    """The package has it once, and the workloads that should find it are there."""
    text = (ROOT / "gcp_adk_store" / defect.file).read_text()

    assert changed(text, defect) != text
    assert {*defect.workloads} <= WORKLOADS.keys()
