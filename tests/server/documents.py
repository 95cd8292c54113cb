"""Take from the documents what they tell a reader to write or to run."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OF_A_REAL_PROJECT = "# needs a real project"


def blocks(document: str, language: str) -> list[str]:
    """Return the blocks of a *language* in a document, in order."""
    text = (ROOT / document).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def commands(document: str) -> list[str]:
    """Return the blocks of a shell's commands that need no real project."""
    return [block for block in blocks(document, "bash") if not block.startswith(OF_A_REAL_PROJECT)]


def command(document: str, part: str) -> str:
    """Return the one block of commands with *part* in it."""
    (found,) = [block for block in commands(document) if part in block]
    return found
