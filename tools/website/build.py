"""Build the site of the documents without a network: ``python -m tools.website.build``, or ``make docs``.

The documents are written for readers of the repository: they link to each other, and to files and folders
beside docs/. So this first makes a copy in which every such link leads to a page. What a link leads to
outside of docs/ is copied too: a document as a page, a file as a page that shows it, a folder as a page that
lists it.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
CONFIGURATION: Final = ROOT / "tools/website/zensical.toml"
PLACE: Final = ROOT / ".cache/website"
SITE: Final = ROOT / "build/site"
PROGRAM: Final = ROOT / ".venv-docs/bin/zensical"

OUTSIDE: Final = "repository"
"""The folder of the site for what lies outside of docs/."""

_LINK: Final = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)(#[^)\s]+)?(?=\))")
_OF_GITHUB: Final = re.compile(r"\[([^\]]*)\]\((?:\.\./)+(?:issues|security)\b[^)]*\)")
"""Links to pages that GitHub makes of a repository; the site says their names alone."""
_FENCED: Final = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
_ITEM: Final = re.compile(r"(?:[-*]|\d+\.) ")
_OF_LIST: Final = re.compile(r" {2,}|(?:[-*]|\d+\.) ")
_LANGUAGES: Final = {".py": "python", ".tf": "hcl", ".yaml": "yaml", ".json": "json", ".toml": "toml"}
_ELSEWHERE: Final = re.compile(
    r"""<(?:script|img|iframe|link(?=[^>]*\brel="?(?:stylesheet|preload|icon))[^>]*?)\b[^>]*\b(?:src|href)="?https?://[^>\s"]+"""
)


def pages(root: Path = ROOT) -> dict[str, str | Path]:
    """Return the site's sources by their paths in it: a text, or a file to copy."""
    made: dict[str, str | Path] = {}
    waiting = [
        path
        for path in sorted((root / "docs").rglob("*"))
        if path.is_file() and path.suffix in (".md", ".svg", ".png")
    ]
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        place = _place(path, root)
        if path.suffix in (".svg", ".png"):
            made[place] = path
            continue
        text = _text(path, root)

        def lead(found: re.Match[str], path: Path = path, place: str = place, seen: set[Path] = seen) -> str:
            target = Path(os.path.normpath(path.parent / found[2]))
            if not target.exists():
                return found[0]
            if target.is_dir() and (target / "README.md").exists():
                target /= "README.md"
            if target not in seen:
                seen.add(target)
                waiting.append(target)
            leads = os.path.relpath(_place(target, root), PurePosixPath(place).parent)
            return f"{found[1]}{leads}{found[3] or ''}"

        made[place] = _outside_of_code(text, lead)
    return made


def _place(path: Path, root: Path) -> str:
    """Return the path in the site of what a link leads to."""
    inside = path.relative_to(root)
    if inside.parts[0] == "docs":
        place = PurePosixPath(*inside.parts[1:])
    else:
        place = PurePosixPath(OUTSIDE, *inside.parts)
    if path.is_dir():
        return str(place / "index.md")
    return str(place) if path.suffix in (".md", ".svg", ".png") else f"{place}.md"


def _text(path: Path, root: Path) -> str:
    if path.suffix == ".md":
        return for_markdown(_OF_GITHUB.sub(r"\1", path.read_text()))
    if path.is_dir():
        files = sorted(each for each in path.iterdir() if not each.name.startswith((".", "__")))
        return "\n".join(
            [f"# {path.relative_to(root)}", "", *(f"- [{each.name}]({each.name})" for each in files), ""]
        )
    return f"# {path.name}\n\n`````{_LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n`````\n"


def _outside_of_code(text: str, lead: Any) -> str:
    parts, at = [], 0
    for block in _FENCED.finditer(text):
        parts += [_LINK.sub(lead, text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, _LINK.sub(lead, text[at:])])


def for_markdown(text: str) -> str:
    """Return *text* as the site's Markdown needs it: a blank line before lists, four blanks within them."""
    lines: list[str] = []
    is_code, shift = False, 0
    for line in text.splitlines():
        stripped = line.lstrip(" ")
        indent = len(line) - len(stripped)
        if not is_code:
            shift = 4 - indent if indent in (2, 3) else 0
            if _ITEM.match(stripped) and lines and lines[-1] and not _OF_LIST.match(lines[-1]):
                lines.append("")
        lines.append(" " * (indent + shift) + stripped if stripped else "")
        if stripped.startswith("```"):
            is_code = not is_code
    return "\n".join([*lines, ""])


def broken(made: Mapping[str, str | Path]) -> list[str]:
    """Return the links and pictures of the site's sources that lead to none of them."""
    found = []
    for name, text in made.items():
        prose = _FENCED.sub("", text) if isinstance(text, str) else ""
        for _, target, _ in _LINK.findall(re.sub(r"`[^`]*`", "", prose)):
            if os.path.normpath(PurePosixPath(name).parent / target) not in made:
                found.append(f"{name}: {target}")
    return found


def navigation(configuration: Mapping[str, Any]) -> list[str]:
    """Return the pages of the navigation, in order."""

    def walk(entry: Any) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        each = entry.values() if isinstance(entry, dict) else entry
        return [page for part in each for page in walk(part)]

    return walk(configuration["project"]["nav"])


def elsewhere(site: Path) -> list[str]:
    """Return what pages of a built site would load from other addresses."""
    return [
        f"{path.relative_to(site)}: {found}"
        for path in sorted(site.rglob("*.html"))
        for found in _ELSEWHERE.findall(path.read_text())
    ]


def main() -> int:
    """Build the site; return the status of the generator, or 1 if a page needs a network."""
    shutil.rmtree(PLACE, ignore_errors=True)
    sources = pages()
    nowhere = broken(sources)
    if nowhere:
        sys.stderr.writelines(f"leads nowhere: {each}\n" for each in nowhere)
        return 1
    for path, source in sources.items():
        target = PLACE / "pages" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(source, str):
            target.write_text(source)
        else:
            shutil.copy(source, target)
    shutil.copy(CONFIGURATION, PLACE)
    built = subprocess.run([PROGRAM, "build", "--strict", "--clean"], cwd=PLACE, check=False)
    if built.returncode:
        return built.returncode
    shutil.rmtree(SITE, ignore_errors=True)
    shutil.copytree(PLACE / "site", SITE)
    found = elsewhere(SITE)
    sys.stderr.writelines(f"needs a network: {each}\n" for each in found)
    return 1 if found else 0


def configuration() -> dict[str, Any]:
    """Return the site's configuration."""
    return tomllib.loads(CONFIGURATION.read_text())


if __name__ == "__main__":
    sys.exit(main())
