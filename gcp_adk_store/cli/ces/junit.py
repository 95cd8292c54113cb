"""Write what became of tests as CI systems read it: JUnit's XML."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from gcp_adk_store.cli.terminal import visible

if TYPE_CHECKING:
    from gcp_adk_store.ces.testing.outcomes import Outcome

_ELEMENTS: Final = {"failed": "failure", "error": "error", "skipped": "skipped"}
_NO_XML: Final = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}


def junit_xml(outcomes: "Sequence[Outcome]", suite_name: str = "ces test") -> bytes:
    """Return *outcomes* as one suite, in UTF-8; characters that XML cannot have are escaped."""
    counts = {name: sum(each.status == status for each in outcomes) for status, name in _ELEMENTS.items()}
    suite = ET.Element(
        "testsuite",
        name=suite_name,
        tests=str(len(outcomes)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time=f"{sum(each.duration_s for each in outcomes):.3f}",
    )
    for each in outcomes:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=_text(each.subject or each.path),
            name=_text(each.name),
            file=_text(each.path),
            line=str(each.line),
            time=f"{each.duration_s:.3f}",
        )
        if each.status in _ELEMENTS:
            says = _text("\n".join(each.says))
            ET.SubElement(case, _ELEMENTS[each.status], message=says.partition("\n")[0]).text = says
        if each.stdout:
            ET.SubElement(case, "system-out").text = _text(each.stdout)
    root = ET.Element("testsuites")
    root.append(suite)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _text(text: str) -> str:
    return visible(text).translate(_NO_XML)
