"""The report for CI can be read, whatever is in it."""

from xml.etree import ElementTree as ET

from gcp_adk_store.ces.testing.outcomes import Outcome
from gcp_adk_store.cli.ces.check import junit_xml


def test_a_report_is_xml_whatever_code_printed() -> None:
    """Also what XML cannot have."""
    said = "\0\x1b\ud800\ufffe<&]]>\n\U0001f600"
    outcome = Outcome(
        path="a.yaml", line=1, name=said, subject="a", status="error", says=(said,), stdout=said
    )
    (suite,) = ET.fromstring(junit_xml([outcome]))  # noqa: S314  # our own

    assert "\\x00\\x1b\\ud800\\ufffe<&]]>\n\U0001f600" == suite[0].findtext("system-out")
