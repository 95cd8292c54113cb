r"""Show how templates are taken apart: what is a placeholder, what stays as it is, and where it stands."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gcp_adk_store.templates.parsing import (
    Placeholder,
    is_state_key,
    lines_and_columns,
    parse_state_template,
)

TEMPLATES = st.text(st.sampled_from("{}{}$\\ ?:.|ab_1-é\n\"'"), max_size=30)
RANDOM = settings(deadline=None, print_blob=True)


def only(template: str, *, extended: bool = False) -> Placeholder:
    """Return the one placeholder that *template* is."""
    (piece,) = parse_state_template(template, extended=extended)
    assert isinstance(piece, Placeholder)
    return piece


@pytest.mark.parametrize(
    ("template", "name", "optional", "braces"),
    [
        ("{key}", "key", False, 1),
        ("{app:key}", "app:key", False, 1),
        ("{user:key}", "user:key", False, 1),
        ("{temp:key}", "temp:key", False, 1),
        ("{key?}", "key", True, 1),
        ("{app:key?}", "app:key", True, 1),
        ("{{key}}", "key", False, 2),
        ("{{{key?}}}", "key", True, 3),
        ("{{key}", "key", False, 2),
        ("{key}}", "key", False, 1),
        ("{  key \n}", "key", False, 1),
        ("{{ key? }}", "key", True, 2),
        ("{größe_2}", "größe_2", False, 1),
    ],
)
def test_a_placeholder_names_a_state_key(template: str, name: str, optional: bool, braces: int) -> None:  # noqa: FBT001
    """Any number of braces, blanks around the name, and a ``?`` at its end."""
    assert Placeholder(
        text=template, start=0, name=name, is_artifact=False, optional=optional, braces=braces
    ) == only(template)


@pytest.mark.parametrize(
    ("template", "name", "optional", "braces"),
    [
        ("{artifact.notes.txt}", "notes.txt", False, 1),
        ("{artifact.notes.txt?}", "notes.txt", True, 1),
        ("{{artifact.optional_file.txt?}}", "optional_file.txt", True, 2),
        ("{artifact.user:me.png}", "user:me.png", False, 1),
        ("{artifact.a b/c (1).pdf}", "a b/c (1).pdf", False, 1),
    ],
)
def test_a_placeholder_names_an_artifact(template: str, name: str, optional: bool, braces: int) -> None:  # noqa: FBT001
    """Whatever follows ``artifact.`` is a filename, which need be no identifier."""
    assert Placeholder(
        text=template, start=0, name=name, is_artifact=True, optional=optional, braces=braces
    ) == only(template)


@pytest.mark.parametrize(
    "template",
    [
        "",
        "no braces",
        "{}",
        "{ }",
        "{?}",
        "{1a}",
        "{a-b}",
        "{a b}",
        "{a.b}",
        "{a ?}",
        "{a??}",
        "{App:a}",
        "{other:a}",
        "{app:}",
        "{:a}",
        "{app:user:a}",
        "{app: a}",
        '{"a": 1}',
        "{tone|friendly}",
        "${key}",
        "${{key}}",
        r"\{key}",
        r"\{{key}}",
        "{key",
        "key}",
        "{{{",
        "}}}",
    ],
)
def test_what_is_no_placeholder_is_one_literal_piece(template: str) -> None:
    """Invalid names, unbalanced braces, and braces after a dollar or backslash stay as they are."""
    assert ((template,) if template else ()) == parse_state_template(template, extended=False)


def test_only_the_innermost_braces_hold_a_name() -> None:
    """A name has no braces in it, so that of nested ones only the inner stands for a value."""
    pieces = parse_state_template("{a {b} c}", extended=False)

    assert ["{a ", "b", " c}"] == [piece if isinstance(piece, str) else piece.name for piece in pieces]


@pytest.mark.parametrize(
    ("template", "name", "path", "default", "optional"),
    [
        ("{order.items.0.name}", "order", ("items", "0", "name"), None, False),
        ("{user:order.total?}", "user:order", ("total",), None, True),
        ("{tone|friendly}", "tone", (), "friendly", False),
        ("{tone|what?}", "tone", (), "what?", False),
        ("{tone|a|b}", "tone", (), "a|b", False),
        ("{tone|}", "tone", (), "", False),
        ("{order.tone|of no kind}", "order", ("tone",), "of no kind", False),
    ],
)
def test_an_extended_placeholder_has_a_path_and_a_default(
    template: str,
    name: str,
    path: tuple[str, ...],
    default: str | None,
    optional: bool,  # noqa: FBT001
) -> None:
    """Dots lead into a value, and what follows ``|`` stands in for one."""
    assert Placeholder(
        text=template,
        start=0,
        name=name,
        is_artifact=False,
        optional=optional,
        braces=1,
        path=path,
        default=default,
    ) == only(template, extended=True)


def test_blanks_around_a_default_are_trimmed() -> None:
    """As they are around a name: ``I am { tone | friendly }`` has one blank between words."""
    assert "friendly" == only("{ tone | friendly }", extended=True).default


@pytest.mark.parametrize("template", ["{.a}", "{a.}", "{a..b}", "{1.a}", "{|a}", "{other:a.b}"])
def test_an_extended_placeholder_with_an_invalid_name_stays(template: str) -> None:
    """A path needs a key before it, and a name for each step."""
    assert (template,) == parse_state_template(template, extended=True)


def test_an_artifact_has_neither_path_nor_default() -> None:
    """Dots and bars are characters of a filename, in extended templates too."""
    piece = only("{artifact.a.b|c}", extended=True)

    assert ("a.b|c", (), None) == (piece.name, piece.path, piece.default)


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("a", True),
        ("_a1", True),
        ("app:a", True),
        ("user:a", True),
        ("temp:a", True),
        ("", False),
        ("1", False),
        ("a b", False),
        (":a", False),
        ("app:", False),
        ("session:a", False),
        ("app:app:a", False),
    ],
)
def test_a_state_key_is_an_identifier_perhaps_with_a_scope(name: str, valid: bool) -> None:  # noqa: FBT001
    """Of the scopes that ADK has, and of no other."""
    assert valid == is_state_key(name)


@RANDOM
@given(TEMPLATES, st.booleans())
def test_the_pieces_are_the_template(template: str, extended: bool) -> None:  # noqa: FBT001
    """Nothing is lost or moved: pieces put together are the template, each where it says it stands."""
    pieces = parse_state_template(template, extended=extended)
    texts = [piece if isinstance(piece, str) else piece.text for piece in pieces]
    starts = [len("".join(texts[:place])) for place in range(len(texts))]

    assert template == "".join(texts)
    assert [
        (start, True) for start, piece in zip(starts, pieces, strict=True) if isinstance(piece, Placeholder)
    ] == [
        (piece.start, template.startswith(piece.text, piece.start))
        for piece in pieces
        if isinstance(piece, Placeholder)
    ]


@RANDOM
@given(TEMPLATES, st.booleans())
def test_adjacent_literal_text_is_one_piece(template: str, extended: bool) -> None:  # noqa: FBT001
    """No piece is empty, and no two literal ones are neighbours."""
    pieces = parse_state_template(template, extended=extended)

    assert "" not in pieces
    assert not [pair for pair in itertools.pairwise(pieces) if all(isinstance(piece, str) for piece in pair)]


@pytest.mark.parametrize(
    ("start", "place"),
    [(0, (1, 1)), (2, (1, 3)), (3, (2, 1)), (4, (3, 1)), (6, (3, 3))],
)
def test_a_place_is_counted_from_one(start: int, place: tuple[int, int]) -> None:
    """Lines end with a newline, which is the last character of its line."""
    assert [place] == lines_and_columns("ab\n\ncd{", [start])
