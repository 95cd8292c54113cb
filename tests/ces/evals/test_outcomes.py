"""Reports of tests are bounded and can be read, whatever code prints and test files report."""

from dataclasses import replace
from xml.etree import ElementTree as ET

from gcp_adk_store.ces.testing.outcomes import Outcome, bounded
from gcp_adk_store.cli.ces.check import junit_xml


def outcome(*says: str, stdout: str = "", name: str = "a") -> Outcome:
    """Return what became of a test."""
    return Outcome(path="p", line=1, name=name, subject="s", status="failed", says=says, stdout=stdout)


def test_a_flood_is_left_out_of_reports_and_nothing_else_is() -> None:
    """Of a long text its end stays; whatever comes before or after it stays whole."""
    short = outcome("it is 3", stdout="printed")
    flood = outcome("x" * 1_000_000 + "end", stdout="y" * 28_000_000, name="n" * 1_000_000)

    first, *many, last = bounded([short, *[flood] * 200, short])

    assert first == last == short
    assert many[0].says[0].startswith("[983,619 characters are left out]\nxxx")
    assert many[0].says[0].endswith("xend")
    sizes = [len(each.name) + len(each.stdout) + sum(map(len, each.says)) for each in many]
    assert sum(sizes) < 1_200_000


def test_many_texts_of_one_test_are_bounded() -> None:
    """A note for each of them would be a flood too."""
    (found,) = bounded([outcome(*["x"] * 1_000_000)])

    assert found.says == (*["x"] * 20, "[999,980 more are left out]")


def test_a_report_has_ten_thousand_tests_and_counts_the_others() -> None:
    """Failures stay, also those at the end; what is left out failed if one of it did."""
    passed = replace(outcome(), status="passed", name="b")
    bad = outcome("wrong")

    kept = bounded([*[passed] * 10_000, bad, bad])
    worse = bounded([bad] * 10_001)

    assert kept == [
        *[passed] * 9_998,
        bad,
        bad,
        replace(passed, name="others", says=("[2 tests are left out]",)),
    ]
    assert (len(worse), worse[-1].status, worse[-1].says) == (10_001, "failed", ("[1 tests are left out]",))


def test_a_report_is_xml_whatever_code_printed() -> None:
    """Also what XML cannot have."""
    said = "\0\x1b\ud800\ufffe<&]]>\n\U0001f600"
    bad = Outcome(path="a.yaml", line=1, name=said, subject="a", status="error", says=(said,), stdout=said)
    (suite,) = ET.fromstring(junit_xml([bad]))  # noqa: S314  # our own

    assert "\\x00\\x1b\\ud800\\ufffe<&]]>\n\U0001f600" == suite[0].findtext("system-out")
