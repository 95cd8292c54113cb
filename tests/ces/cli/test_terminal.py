"""What others wrote is shown, and steers nothing."""

import pytest

from gcp_adk_store.cli.screen import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain \u00e4 \u4e2d \U0001f469\u200d\U0001f680\u00a0x", None),
        ("two\tcells\nand lines", None),
        ("two\r\nlines", "two\nlines"),
        ("over\rwritten", r"over\rwritten"),
        ("\x1b[31m \x07 \x08 \x9b \x7f", r"\x1b[31m \x07 \x08 \x9b \x7f"),
        ("\u202eabc\u2066 \u2028", r"\u202eabc\u2066 \u2028"),
        ("\ud800", r"\ud800"),
    ],
)
def test_only_what_steers_is_escaped(text: str, shown: str | None) -> None:
    """Text of any language is as it was; None is the same."""
    assert (text if shown is None else shown) == visible(text)
