"""The defects of ``make defects`` fit the package as it is, and its page shows them."""

import ast
import json
from collections import Counter

import pytest

from tests.simulation.defects import DEFECTS, Defect
from tests.simulation.hunt import BEGIN, FIGURES, PAGE, ROOT, changed, table
from tests.simulation.workloads import WORKLOADS

UNTABLED = ("How the tests show this", "Logs")
"""Sections without promises that a seed can break."""


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_has_its_place(defect: Defect) -> None:
    """The package has it once, is still a program with it, and has the workloads that should find it."""
    text = (ROOT / "gcp_adk_store" / defect.file).read_text()
    wrong = changed(text, defect)

    assert wrong != text
    ast.parse(wrong)
    assert {*defect.workloads} <= WORKLOADS.keys()


def test_the_page_has_the_defects_and_what_was_counted() -> None:
    """Its rows are those of the defects, in their order, with the figures beside it."""
    figures = json.loads(FIGURES.read_text())
    _, _, shown = PAGE.read_text().partition(BEGIN)

    assert shown.strip() == table(DEFECTS, figures).strip()
    assert figures.keys() <= {defect.name for defect in DEFECTS}


def test_each_section_has_defects() -> None:
    """Three at least for each section of the proofs that promises something; no name is there twice."""
    text = (ROOT / "docs/proofs.md").read_text()
    sections = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    counts = Counter(defect.section for defect in DEFECTS)

    assert counts.keys() <= {*sections}
    assert min(counts[section] for section in sections if section not in UNTABLED) >= 3
    assert len({defect.name for defect in DEFECTS}) == len(DEFECTS)


def test_half_of_the_defects_take_back_a_repair() -> None:
    """What once was wrong says more of the workloads than what somebody thinks of."""
    assert 2 * sum(bool(defect.reverts) for defect in DEFECTS) >= len(DEFECTS)
