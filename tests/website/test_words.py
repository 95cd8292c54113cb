"""The documents are in plain words, as far as a program can check."""

import pytest

from tools.website import words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("You simply call it.", ["simply"]),
        ("It mends the document, and tells you.", ["mends", "tells"]),
        ("Simply call it.", ["simply"]),
        ("It is stored via Firestore, e.g. in eur3.", ["e.g.", "via"]),
        ("There is no limit.", ["there is no"]),
        ("`simply` and\n```bash\nplease\n```\nand [a page](via.md)", []),
        ("The multi-region US is one. Neither is None.", []),
        ("A robustness test.", []),
    ],
)
def test_a_word_is_found_in_prose_alone(text: str, found: list[str]) -> None:
    """Not in code, not in addresses, not in names."""
    assert found == sorted(each.found for each in words.findings(text))


def test_a_long_sentence_is_found_with_its_line() -> None:
    """A table, and an item of a list, begin anew."""
    long = "Short.\n\n" + "word " * 50 + "end.\n"
    listed = "".join(f"- {'word ' * 20}\n" for _ in range(5))

    assert [3] == [each.line for each in words.findings(long)]
    assert [] == list(words.findings(listed + "| " + "word " * 60 + "|\n"))


def test_a_term_is_found_in_what_people_read_of_code() -> None:
    """Docstrings, comments, messages and names; not single words that are values, and not files' ``tell``."""
    lines = (
        "def repair(_TOLD_before, tell, retold):",
        "    'Mend what is broken.'",
        '    x = "mend"  # it is told so',
        '    raise ValueError(tell, "is mended now")',
    )

    found = [(each.line, each.found) for each in words.findings_in_code("\n".join(lines))]

    assert [(1, "TOLD"), (2, "Mend"), (3, "told"), (4, "mended")] == found


def test_a_term_is_found_between_the_values_of_an_f_string() -> None:
    """From Python 3.12 on, its texts are tokens of their own."""
    lines = ('raise ValueError(f"""{x} was', 'spelled so {y}, of which little {z} is known""")')

    found = [(each.line, each.found) for each in words.findings_in_code("\n".join(lines))]

    assert [(2, "spelled"), (2, "of which little")] == found
