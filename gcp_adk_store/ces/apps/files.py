"""Read the files of an app, and what they say of its behaviour, within bounds."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from gcp_adk_store.ces.apps.findings import Finding, finding
from gcp_adk_store.errors import InvalidInputError

T = TypeVar("T")

UNREADABLE_YAML: Final = (ValueError, RecursionError, AttributeError, LookupError)
"""What YAML raises beside its own errors: an invalid date, too many brackets, a tag that does not fit."""
_SUFFIXES: Final = (".json", ".yaml", ".yml")
_VALUES: Final = 500_000
_LEVELS: Final = 200
"""Of a configuration or a schema. What reads it recurses, and Python ends a recursion of 1,000 calls."""


@dataclass(frozen=True, slots=True)
class Config:
    """A file of configuration."""

    path: Path
    """Where it is, or would be."""
    shown: str
    """How findings name it."""
    text: str
    members: dict[str, Any]
    """Empty if it is missing, or cannot be read."""

    def found(self, code: str, says: str, fix: str, name: str = "") -> Finding:
        """Return a finding at the first line that has *name*."""
        lines = enumerate(self.text.splitlines(), start=1)
        line = next((number for number, each in lines if name in each), 1)
        return finding(code, says, fix, path=self.shown, line=line)

    def unknown(
        self,
        code: str,
        what: str,
        names: Iterable[str],
        known: Collection[str],
        shown: Iterable[str] | None = None,
    ) -> Iterator[Finding]:
        """Yield those *names* of *what* that are not *known*; the app has those, or those *shown*."""
        there = ", ".join(sorted(known if shown is None else shown)) or "none"
        for name in names:
            if last_of(name) not in known:
                says = f"{what} {name[:100]!r} is not in the app; it has: {there}"
                yield self.found(code, says, "correct the name, or add what it names", name)


@dataclass(kw_only=True)
class Files:
    """The files of a folder, and what could not be read of them."""

    folder: Path
    problems: list[Finding] = field(default_factory=list)
    configs: dict[Path, Config] = field(default_factory=dict)
    """Those that were read, by their paths without the suffix."""

    def config(self, stem: Path) -> Config:
        """Return the configuration of that name, with any suffix, which is read once."""
        if stem not in self.configs:
            path = config_file(stem)
            text = self.text(path) if path.is_file() else "{}"
            self.configs[stem] = Config(path, self.shown(path), text, self.parsed(path, text))
        return self.configs[stem]

    def text(self, path: Path) -> str:
        """Return the text of *path*; ``{}`` if it cannot be read."""
        try:
            return path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as exc:
            self.problem(path, f"it cannot be read: {exc}")
            return "{}"

    def parsed(self, path: Path, text: str, *, document: bool = False) -> dict[str, Any]:
        """Return the object that *text* is; with *document* it is a text within the file *path*."""
        read, line = None, 1
        try:
            read = json.loads(text) if path.suffix == ".json" and not document else yaml.safe_load(text)
            says = _excess(read)
        except json.JSONDecodeError as exc:
            says, line = f"it is not JSON: {exc.msg}", exc.lineno
        except UNREADABLE_YAML as exc:
            says = f"it cannot be read: {exc}"
        except yaml.YAMLError as exc:
            mark = getattr(exc, "problem_mark", None)
            line = mark.line + 1 if mark else 1
            says = f"it is not YAML: {getattr(exc, 'problem', None) or exc}"
        if not (says or isinstance(read, dict)):
            says = f"an object is expected, not {type(read).__name__}"
        if says:
            self.problem(path, says, line=line)
        return read if isinstance(read, dict) and not says else {}

    def file(self, name: str | Path, what: str) -> Path | None:
        """Return the path of the file *name* in the folder; None, and a problem of *what*, for none."""
        path = self.folder / name
        try:
            inside = path.resolve().is_relative_to(self.folder.resolve())
            found = path.is_file()
        except (OSError, RuntimeError, ValueError) as exc:  # a loop of links, or no path at all
            self.problem(path, f"{what} is not there: {exc}")
            return None
        if not (inside and found):
            self.problem(path, f"{what} is {'not there' if inside else 'outside of the folder of the app'}")
        return path if inside and found else None

    def problem(self, path: Path, says: str, *, line: int = 1) -> None:
        """Add what *says* of *path*."""
        fix = "fix the file, or put one there, or take its name out of the configuration"
        self.problems.append(finding("CES001", says, fix, path=self.shown(path), line=line))

    def shown(self, path: Path) -> str:
        """Return how *path* is named: from the folder."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)


def folders(parent: Path) -> list[Path]:
    """Return the folders in *parent*, sorted; an empty list if *parent* is not a folder."""
    return sorted(path for path in parent.iterdir() if path.is_dir()) if parent.is_dir() else []


def member(value: Any, *names: str) -> Any:
    """Return what is at *names* in *value*, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def typed(kind: type[T], value: Any, *names: str) -> T:
    """Return what is at *names* in *value*, or an empty *kind* if that is of another type."""
    found = member(value, *names)
    return found if isinstance(found, kind) else kind()


def last_of(name: str) -> str:
    """Return the last part of a resource name; other names stay as they are."""
    return name.rpartition("/")[2] if name.startswith("projects/") else name


def declared_variables(config: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the schema of each variable that the configuration of an app declares."""
    for each in typed(list, config, "variableDeclarations"):
        name, schema = member(each, "name"), member(each, "schema")
        if isinstance(name, str) and isinstance(schema, Mapping):
            yield name, schema


def _excess(value: Any) -> str:
    """Return what *value*, as JSON, would have too many of; YAML refers to some values again and again."""
    waiting, seen = [(value, 0)], 0
    while waiting:
        each, level = waiting.pop()
        seen += 1
        if level > _LEVELS:
            return f"it is nested deeper than {_LEVELS} levels, or refers to itself"
        if seen > _VALUES:
            return f"it has more than {_VALUES:,} values, those referred to counted each time"
        if isinstance(each, dict | list):
            waiting += [(below, level + 1) for below in (each.values() if isinstance(each, dict) else each)]
    return ""


def config_file(stem: Path) -> Path:
    """Return the configuration of that name, with any suffix; with the first suffix if it is missing."""
    named = [stem.with_name(stem.name + suffix) for suffix in _SUFFIXES]
    return next((path for path in named if path.is_file()), named[0])


def app_folder(path: Path, name: str | None = None) -> Path:
    """Return the folder of the app in *path*, which is itself one where it has no other.

    Args:
        path: The folder of an app, of tools, or of a project with ``cxas_app/<App>``.
        name: The folder of the app, where there are several.

    Raises:
        InvalidInputError: *path* is not a folder, no app has that name, or there are several and no name.
    """
    if not path.is_dir():
        if path.exists():
            raise InvalidInputError(f"{path} is a file; unpack an archive, and name the folder of its app")
        raise InvalidInputError(f"the folder {path} does not exist")
    if name is None and (is_app(path) or (path / "agents").is_dir() or (path / "tools").is_dir()):
        return path
    apps = [each for parent in (path / "cxas_app", path) for each in folders(parent) if is_app(each)]
    found = [folder for folder in apps if name in {None, folder.name}]
    names = ", ".join(folder.name for folder in apps) or "none"
    if name is not None and len(found) != 1:
        raise InvalidInputError(f"{path} has not one app of the name {name}; it has: {names}")
    if len(found) > 1:
        raise InvalidInputError(f"{path} has several apps; name one of: {names}")
    return found[0] if found else path


def is_app(folder: Path) -> bool:
    """Return whether *folder* has the configuration of an app."""
    return config_file(folder / "app").is_file()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorHandling:
    """What an agent answers if its model fails: ``errorHandlingSettings``."""

    says: str | None = None
    """The fallback message in the app's own language; empty if it has none, None if it says none."""
    most_fallbacks: int = 0
    """How often in a row it says that before it ends the session; 0 for always."""
    ends: bool = False
    """Whether it ends the session instead."""
    escalates: bool = False
    """Whether the end asks for a human."""


def error_handling_of(config: Mapping[str, Any]) -> ErrorHandling:
    """Return what the configuration of an app says; what is malformed is left out."""
    settings = config.get("errorHandlingSettings")
    strategy = member(settings, "errorHandlingStrategy")
    texts = typed(dict, settings, "fallbackResponseConfig", "customFallbackMessages")
    language = str(member(config, "languageSettings", "defaultLanguageCode"))
    says = str(member(texts, language) or next(iter(texts.values()), ""))
    most = member(settings, "fallbackResponseConfig", "maxFallbackAttempts")
    return ErrorHandling(
        says=says if strategy == "FALLBACK_RESPONSE" else None,
        most_fallbacks=most if isinstance(most, int) and not isinstance(most, bool) else 0,
        ends=strategy == "END_SESSION",
        escalates=member(settings, "endSessionConfig", "escalateSession") is True,
    )


def seconds_of(duration: Any) -> float | None:
    """Return the seconds of a duration in JSON, such as ``12.5s``; None for anything else."""
    text = str(duration)
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        return None
    return seconds if text.endswith("s") and 0 < seconds < float("inf") else None
