"""Write the tables of inputs, outputs and resources into the READMEs below ``terraform``.

``python -m tests.terraform.tables`` makes them of the ``*.tf`` files; a test names outdated ones.
"""

from typing import Final

from tests.terraform.declared import FOLDERS, TERRAFORM, outputs, resources, variables

BEGIN: Final = "<!-- made by python -m tests.terraform.tables -->\n"
END: Final = "<!-- end -->\n"


def tables(folder: str) -> str:
    """Return the three tables of a folder."""
    inputs = [
        [
            f"`{each.name}`",
            f"`{each.type}`",
            "required" if each.default is None else f"`{each.default}`",
            each.description,
        ]
        for each in variables(folder)
    ]
    made = [
        [f"`{file}`", ", ".join(f"`{each}`" for each in addresses)] for file, addresses in resources(folder)
    ]
    return "\n".join(
        [
            _table("Inputs", ["input", "type", "default", "what it is"], inputs),
            _table(
                "Outputs", ["output", "what it is"], [[f"`{name}`", text] for name, text in outputs(folder)]
            ),
            _table("Resources", ["file", "resources"], made),
        ]
    )


def with_tables(text: str, folder: str) -> str:
    """Return a README with its tables made anew.

    Raises:
        ValueError: it does not say where they are.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{folder}/README.md has no place for tables: {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n{tables(folder)}\n{END}{after}"


def _table(title: str, head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return f"## {title}\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines).replace(
        "| --- |" + " --- |" * (len(head) - 1), "|" + "---|" * len(head)
    )


def main() -> None:
    """Write them."""
    for folder in FOLDERS:
        path = TERRAFORM / folder / "README.md"
        path.write_text(with_tables(path.read_text(), folder))


if __name__ == "__main__":
    main()
