"""Read what a folder declares, in the form of ``terraform fmt``: variables, outputs, resources."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.setup.tools import ROOT

TERRAFORM: Final = ROOT / "terraform"
FOLDERS: Final = sorted(
    str(folder.relative_to(TERRAFORM))
    for parent in ("modules", "examples")
    for folder in (TERRAFORM / parent).iterdir()
)
"""Every module and example, by its path below ``terraform``."""


@dataclass(frozen=True)
class Variable:
    """A variable of a folder."""

    name: str
    description: str
    type: str
    """On one line, as Terraform takes it."""
    default: str | None
    """In the same form; ``None`` where a value is required."""
    messages: tuple[str, ...]
    """What it says of an illegal value, for each rule."""
    choices: tuple[str, ...]
    """The legal values, where its rules list them."""


def blocks(folder: str, kind: str) -> list[tuple[Path, list[str], str]]:
    """Return each block of a *kind*: its file, its labels, and what is between its braces."""
    found = []
    for path in sorted((TERRAFORM / folder).glob("*.tf")):
        text = path.read_text()
        for labels, body in re.findall(
            rf'^{kind}((?: "[^"]+")+) {{\n(.*?)^}}$', text, re.DOTALL | re.MULTILINE
        ):
            found.append((path, re.findall(r'"([^"]+)"', labels), body))
    return found


def variables(folder: str) -> list[Variable]:
    """Return the variables of a folder, by name."""
    return sorted(
        (
            Variable(
                name=name,
                description=_text(_argument(body, "description") or '""'),
                type=_argument(body, "type") or "",
                default=_argument(body, "default"),
                messages=tuple(map(_text, re.findall(r'^    error_message = (".*")$', body, re.MULTILINE))),
                choices=tuple(
                    choice
                    for listed in re.findall(r"contains\(\s*\[(.*?)\]", body, re.DOTALL)
                    for choice in re.findall(r'"([^"]+)"', listed)
                ),
            )
            for _, (name,), body in blocks(folder, "variable")
        ),
        key=lambda variable: variable.name,
    )


def outputs(folder: str) -> list[tuple[str, str]]:
    """Return the outputs of a folder with their descriptions, by name."""
    return sorted(
        (name, _text(_argument(body, "description") or '""')) for _, (name,), body in blocks(folder, "output")
    )


def resources(folder: str) -> list[tuple[str, list[str]]]:
    """Return the addresses of what each file makes, reads and calls."""
    found: dict[str, list[str]] = {}
    for kind, start in (("resource", ""), ("data", "data."), ("module", "module.")):
        for path, labels, _ in blocks(folder, kind):
            found.setdefault(path.name, []).append(start + ".".join(labels))
    return sorted((file, sorted(addresses)) for file, addresses in found.items())


def _argument(body: str, name: str) -> str | None:
    """Return an argument's value on one line."""
    found = re.search(rf"^  {name} += (.*?)\n(?=  \w|\n|\Z)", body + "\n", re.DOTALL | re.MULTILINE)
    if found is None:
        return None
    first, *rest = [re.sub(r" += ", " = ", line.strip()) for line in found[1].splitlines()]
    if not rest:
        return first
    *inner, last = rest
    return f"{first} {', '.join(inner)} {last}".replace("{,", "{").replace(", }", " }")


def _text(quoted: str) -> str:
    return quoted[1:-1].replace('\\"', '"')
