"""Take from the documents what they ask a reader to write or to run."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "emulators", "terraform", "tools", "examples", "tests")

OF_A_REAL_PROJECT = "# needs a real project"
OF_OTHERS = ("# needs Docker", "# needs the network", "# needs google-cloud-aiplatform")
"""Of what else no test can run: first lines of blocks, after which a reason may follow."""


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    document: str
    language: str
    text: str

    @property
    def needs(self) -> bool:
        """Whether it says that it needs what tests have not."""
        return self.text.startswith((OF_A_REAL_PROJECT, *OF_OTHERS))

    @property
    def lines(self) -> list[str]:
        """The commands in it, one a line, without comments."""
        joined = re.sub(r"\\\n\s*", "", self.text)
        stripped = (re.sub(r"\s+# .*", "", line).strip() for line in joined.splitlines())
        return [line for line in stripped if line and not line.startswith("#")]


def documents() -> list[str]:
    """Return every document for readers, by its path from the repository's root."""
    found = [*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def all_blocks(document: str) -> Iterator[Block]:
    """Yield the blocks of a document in order, those in lists too."""
    text = (ROOT / document).read_text()
    for indent, language, body in re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE):
        yield Block(document, language, textwrap.dedent(body) if indent else body)


def blocks(document: str, language: str) -> list[str]:
    """Return the blocks of a *language* in a document, in order."""
    return [block.text for block in all_blocks(document) if block.language == language]


def names_of(document: str, *places: int) -> dict[str, Any]:
    """Run blocks of Python of a document, by default all, and return the names that they define."""
    names: dict[str, Any] = {}
    code = blocks(document, "python")
    for place in places or range(len(code)):
        exec(code[place], names)  # noqa: S102  # the document's own code is what is tested
    return names


def commands(document: str) -> list[str]:
    """Return the blocks of a shell's commands that need nothing but what tests have."""
    return [block.text for block in all_blocks(document) if block.language == "bash" and not block.needs]


def command(document: str, part: str) -> str:
    """Return the one block of commands with *part* in it."""
    (found,) = [block for block in commands(document) if part in block]
    return found
