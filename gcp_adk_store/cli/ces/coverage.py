"""Show which lines of tools and callbacks tests ran, and write it as other tools read it."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from rich.table import Table
from rich.text import Text

from gcp_adk_store.cli.ces.junit import xml_text
from gcp_adk_store.cli.screen import cell, show
from gcp_adk_store.cli.terminal import in_one_line

if TYPE_CHECKING:
    from gcp_adk_store.ces.testing.coverage import FileCoverage

_ENOUGH: Final = 80.0
"""Percent that the table shows in green; as CI services do by default."""


def show_coverage(files: "Sequence[FileCoverage]") -> None:
    """Print a table of *files*, with the lines that did not run, and a sum."""
    from gcp_adk_store.ces.testing.coverage import ranges  # noqa: PLC0415  # of the extra

    table = Table("file", "statements", "ran", "%", "did not run", box=None)
    for column in table.columns[1:4]:
        column.justify = "right"
    for each in files:
        table.add_row(cell(each.path), *_counts(each.statements, each.ran), ranges(each.missing))
    statements = [line for each in files for line in each.statements]
    ran = [line for each in files for line in each.ran]
    table.add_row("together", *_counts(statements, ran), "")
    show(table)


def _counts(statements: Sequence[int], ran: Sequence[int]) -> tuple[str, str, Text]:
    percent = 100 * len(ran) / len(statements) if statements else 100.0
    color = "green" if percent >= _ENOUGH else "yellow"
    return str(len(statements)), str(len(ran)), Text(f"{percent:.0f}", style=color)


def coverage_report(files: "Sequence[FileCoverage]", name: PurePath) -> bytes:
    """Return *files* in the format of lcov; in that of Cobertura if *name* ends with ``.xml``."""
    return _cobertura(files) if name.suffix == ".xml" else _lcov(files)


def _lcov(files: "Sequence[FileCoverage]") -> bytes:
    lines: list[str] = []
    for each in files:
        ran = {*each.ran}
        lines += ["TN:", f"SF:{in_one_line(each.path)}"]
        lines += [f"DA:{number},{int(number in ran)}" for number in each.statements]
        lines += [f"LF:{len(each.statements)}", f"LH:{len(ran)}", "end_of_record"]
    return "".join(f"{line}\n" for line in lines).encode()


def _cobertura(files: "Sequence[FileCoverage]") -> bytes:
    root = ET.Element("coverage", _rates(files), version="1", timestamp="0")
    root.append(ET.Element("sources"))
    ET.SubElement(root[0], "source").text = "."
    package = ET.SubElement(ET.SubElement(root, "packages"), "package", _rates(files), name="app")
    classes = ET.SubElement(package, "classes")
    for each in files:
        path, ran = xml_text(in_one_line(each.path)), {*each.ran}
        found = ET.SubElement(classes, "class", _rates([each]), name=path, filename=path)
        ET.SubElement(found, "methods")
        lines = ET.SubElement(found, "lines")
        for number in each.statements:
            ET.SubElement(lines, "line", number=str(number), hits=str(int(number in ran)))
    return bytes(ET.tostring(root, encoding="utf-8", xml_declaration=True))


def _rates(files: "Sequence[FileCoverage]") -> dict[str, str]:
    statements, ran = sum(len(each.statements) for each in files), sum(len(each.ran) for each in files)
    return {
        "line-rate": f"{ran / statements if statements else 1:.4f}",
        "lines-covered": str(ran),
        "lines-valid": str(statements),
        "branch-rate": "0",
        "branches-covered": "0",
        "branches-valid": "0",
        "complexity": "0",
    }
