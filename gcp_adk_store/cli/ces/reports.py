"""Show what became of tests, also as CI systems read it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import click
from rich.table import Table
from rich.text import Text

from gcp_adk_store.cli.screen import CannotLookError, cell, show, visible

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
            classname=xml_text(each.subject or each.path),
            name=xml_text(each.name),
            file=xml_text(each.path),
            line=str(each.line),
            time=f"{each.duration_s:.3f}",
        )
        if each.status in _ELEMENTS:
            says = xml_text("\n".join(each.says))
            ET.SubElement(case, _ELEMENTS[each.status], message=says.partition("\n")[0]).text = says
        if each.stdout:
            ET.SubElement(case, "system-out").text = xml_text(each.stdout)
    root = ET.Element("testsuites")
    root.append(suite)
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def xml_text(text: str) -> str:
    """Return *text* without characters that XML cannot have, or that control a terminal."""
    return visible(text).translate(_NO_XML)


_COLORS: Final = {"passed": "green", "failed": "red", "error": "red", "skipped": "yellow"}


def write_junit(junit: Path, outcomes: "list[Outcome]", suite: str = "ces test") -> None:
    """Write *outcomes* as JUnit's XML; raises as :func:`write`."""
    write(junit, junit_xml(outcomes, suite))


def write(file: Path, content: bytes) -> None:
    """Write a report.

    Raises:
        CannotLookError: the file cannot be written.
    """
    try:
        file.write_bytes(content)
    except OSError as exc:
        raise CannotLookError(f"{file} cannot be written: {exc.strerror}") from exc


def show_outcomes(outcomes: "list[Outcome]") -> None:
    """Print *outcomes* as a table, and below it what is wrong."""
    table = Table("", "of", "test", "ms", box=None)
    table.columns[3].justify = "right"
    for each in outcomes:
        status = Text(each.status, style=_COLORS[each.status])
        table.add_row(status, cell(each.subject), cell(each.name), f"{each.duration_s * 1000:,.0f}")
    show(table)
    for each in outcomes:
        if each.says:
            click.echo(visible(f"\n{each.path}:{each.line}: {each.name}"))
            for text in each.says:
                click.echo("\n".join(f"  {visible(line)}" for line in text.splitlines()))
            if each.stdout:
                printed = (f"    {visible(line)}" for line in each.stdout.splitlines())
                click.echo("\n".join(("  printed:", *printed)))
    counts = Counter[str](each.status for each in outcomes)
    click.echo()
    show(Text(", ".join(f"{counts[status]} {status}" for status in _COLORS if counts[status])))
