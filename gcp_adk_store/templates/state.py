r"""Fill instructions from a session's state and artifacts: the session-state dialect.

``{key}``, ``{app:key}``, ``{user:key}`` and ``{temp:key}`` stand for state, ``{artifact.name}`` for an
artifact; ``?`` before the closing brace makes one optional. Anything else in braces stays as it is, and so do
``${x}`` and ``\{x}``.
"""

import difflib
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.artifacts import BaseArtifactService
from google.adk.sessions import Session
from google.genai import types

from gcp_adk_store.errors import InvalidInputError, TemplateKeyError
from gcp_adk_store.kernel.calls import checks_kinds, require_kinds
from gcp_adk_store.kernel.concurrency import gather
from gcp_adk_store.model.keys import ArtifactKey
from gcp_adk_store.templates.parsing import (
    Placeholder,
    lines_and_columns,
    parse_state_template,
    require_template,
    text_of,
)

TemplateContext: TypeAlias = ReadonlyContext | InvocationContext | Session
"""The source of an instruction's values."""

InstructionProvider: TypeAlias = Callable[[ReadonlyContext], Awaitable[str]]
"""The function that ADK calls for an agent's instruction."""

_MISSING: Final = object()
_CUT: Final = "…"
_INDEX: Final = re.compile(r"[0-9]{1,9}")

_BYTES: Final = "application/octet-stream"
_TEXT_TYPES: Final = frozenset(
    {f"application/{name}" for name in ("csv", "json", "svg+xml", "xml")}
    | {f"image/{name}" for name in ("svg", "svg+xml", "xml")}
)
"""Types that ADK gives a model as text, beside text/*."""
_TEXT_ENDINGS: Final = (".txt", ".csv", ".json", ".xml")


@checks_kinds
@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateSettings:
    """Rules for placeholders; the defaults are those of ADK 2.13, except for ``{{key}}`` without a value.

    Raises:
        InvalidInputError: the value of a setting is unknown.
    """

    double_braces: Literal["substitute", "literal"] = "substitute"
    """The meaning of two or more braces: the same as one, or literal text."""
    missing: Literal["error", "keep", "empty"] = "error"
    """The result of a required placeholder without a value: an error, its own text, or empty text."""
    strict: bool = False
    """Whether this also applies to two or more braces; otherwise such a placeholder stays."""
    extended: bool = False
    """Whether ``{order.items.0.name}`` leads into a value, and ``{tone|friendly}`` has a default."""
    max_value_chars: int | None = None
    """The limit of characters of one value; a longer one is cut and ends with ``…``."""
    allowed_keys: Collection[str] | None = None
    """Allowed keys, with ``artifact.NAME`` for artifacts; a final ``*`` matches any ending, as in ``app:*``.

    State that users write enters the instruction unchanged; a list of allowed keys keeps the rest out."""

    def __post_init__(self) -> None:
        if (most := self.max_value_chars) is not None and most < 1:
            raise InvalidInputError(f"max_value_chars is {most}, it must be 1 or more, or None")
        keys = self.allowed_keys
        if isinstance(keys, str) or not all(isinstance(key, str) for key in keys or ()):
            what = "text" if isinstance(keys, str) else f"{type(keys).__name__} of other things"
            raise InvalidInputError(f"allowed_keys is a {what}, it must be a collection of keys")

    def means_itself(self, placeholder: Placeholder) -> bool:
        """Return whether *placeholder* is never filled."""
        return placeholder.braces > 1 and self.double_braces == "literal"

    def allows(self, placeholder: Placeholder) -> bool:
        """Return whether *placeholder* may be filled."""
        key = placeholder.key
        return self.allowed_keys is None or any(
            key.startswith(allowed[:-1]) if allowed.endswith("*") else key == allowed
            for allowed in self.allowed_keys
        )

    def without_value(self, placeholder: Placeholder) -> str | None:
        """Return the replacement of *placeholder* if its value is missing; ``None`` if that is an error."""
        if placeholder.default is not None:
            return placeholder.default
        if placeholder.optional:
            return ""
        if self.missing == "keep" or (placeholder.braces > 1 and not self.strict):
            return placeholder.text
        return "" if self.missing == "empty" else None


ADK_SETTINGS: Final = TemplateSettings()
"""The default."""


async def inject_session_state(
    template: str,
    context: TemplateContext,
    *,
    artifact_service: BaseArtifactService | None = None,
    settings: TemplateSettings = ADK_SETTINGS,
) -> str:
    """Return *template* with its placeholders filled from a session.

    It loads the latest version of each artifact once, concurrently. It returns a template without braces
    unchanged.

    Args:
        template: The instruction.
        context: ADK's context; or a session, read with ``get_session``, so that no runner is needed.
        artifact_service: The artifact service, by default the context's.
        settings: The rules for placeholders.

    Raises:
        TemplateKeyError: a required value is missing, or a key is not allowed.
        InvalidInputError: *template* or *context* has a wrong type, an artifact needs a missing service, or a
            value has no text.
    """
    require_template(template)
    require_kinds(inject_session_state, (), {"artifact_service": artifact_service, "settings": settings})
    session, service = _source(context, artifact_service)
    if "{" not in template:
        return template
    pieces = [
        piece.text if isinstance(piece, Placeholder) and settings.means_itself(piece) else piece
        for piece in parse_state_template(template, extended=settings.extended)
    ]
    filled = [piece for piece in pieces if isinstance(piece, Placeholder)]
    for placeholder in filled:
        if not settings.allows(placeholder):
            where = f"`{placeholder.key}`, at {_place(template, placeholder)}"
            raise TemplateKeyError(f"{where}, is not among allowed_keys")
    artifacts = await _load([piece.name for piece in filled if piece.is_artifact], session, service)
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
            continue
        value = _value(piece, session.state, artifacts)
        text = settings.without_value(piece) if value is _MISSING else _shown(value, piece, settings)
        if text is None:
            there = await _filenames(session, service) if piece.is_artifact else session.state
            raise _missing(template, piece, there)
        texts.append(text)
    return "".join(texts)


def session_instruction(
    template: str,
    *,
    artifact_service: BaseArtifactService | None = None,
    settings: TemplateSettings = ADK_SETTINGS,
) -> InstructionProvider:
    """Return an agent's ``instruction`` that fills *template* again for every call of the model.

    Raises:
        InvalidInputError: *template* is not a text.
    """
    require_template(template)
    require_kinds(session_instruction, (), {"artifact_service": artifact_service, "settings": settings})
    return partial(inject_session_state, template, artifact_service=artifact_service, settings=settings)


def made_of(instruction: object) -> tuple[object, TemplateSettings]:
    """Return the template of what :func:`session_instruction` returned, and its rules; else *instruction*."""
    if isinstance(instruction, partial) and instruction.func is inject_session_state:
        return instruction.args[0], instruction.keywords["settings"]
    return instruction, ADK_SETTINGS


def _source(
    context: TemplateContext | None, given: BaseArtifactService | None
) -> tuple[Session, BaseArtifactService | None]:
    if isinstance(context, ReadonlyContext):
        # ADK keeps the services of a run here, without public access.
        context = context._invocation_context  # noqa: SLF001
    if isinstance(context, Session):
        return context, given
    session = getattr(context, "session", None)
    if session is None:
        raise InvalidInputError(
            f"context must be ADK's context or a session, not {type(context).__name__}; get_session returns "
            "None for a session that does not exist"
        )
    return session, given or getattr(context, "artifact_service", None)


def _ids(session: Session) -> dict[str, Any]:
    return {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}


async def _load(
    names: Sequence[str], session: Session, service: BaseArtifactService | None
) -> dict[str, types.Part | None] | None:
    """Return artifacts by name; ``None`` without a service, for an error at the placeholder.

    A name that no artifact of the session can have is missing.
    """
    if service is None:
        return None
    once = [name for name in dict.fromkeys(names) if _can_exist(name, session)]
    parts = await gather(service.load_artifact(**_ids(session), filename=name) for name in once)
    return dict(zip(once, parts, strict=True))


def _can_exist(name: str, session: Session) -> bool:
    try:
        ArtifactKey.of(app=session.app_name, user=session.user_id, session=session.id, filename=name)
    except InvalidInputError:
        return False
    return True


def _value(
    piece: Placeholder, state: Mapping[str, Any], artifacts: Mapping[str, types.Part | None] | None
) -> Any:
    if piece.is_artifact:
        if artifacts is None:
            raise InvalidInputError(
                "Artifact service is not initialized; pass artifact_service=, or give it to the Runner"
            )
        part = artifacts.get(piece.name)
        return _MISSING if part is None else _artifact_text(part, piece.name)
    value = state.get(piece.name, _MISSING)
    for step in piece.path:
        value = _inner(value, step)
    return value


def _inner(value: Any, step: str) -> Any:
    """Return the item *step* of a map or a list."""
    if isinstance(value, Mapping):
        return value.get(step, _MISSING)
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and _INDEX.fullmatch(step):
        index = int(step)
        return value[index] if index < len(value) else _MISSING
    return _MISSING


def _shown(value: Any, piece: Placeholder, settings: TemplateSettings) -> str:
    text = text_of(value, piece.key)
    limit = settings.max_value_chars
    return text if limit is None or len(text) <= limit else f"{text[:limit]}{_CUT}"


async def _filenames(session: Session, service: BaseArtifactService | None) -> Collection[str]:
    try:
        return () if service is None else await service.list_artifact_keys(**_ids(session))
    except ValueError:  # the session has an id that no artifact can have
        return ()


def _missing(template: str, piece: Placeholder, there: Collection[object]) -> TemplateKeyError:
    # A caller may have put other keys into the state of its session.
    near = difflib.get_close_matches(piece.name, [name for name in there if isinstance(name, str)], n=3)
    hint = f"; there are {', '.join(near)}" if near else ""
    name = ".".join((piece.key, *piece.path))
    what = (
        f"Artifact '{piece.name}' not found" if piece.is_artifact else f"Context variable not found: `{name}`"
    )
    way_out = f"{'save' if piece.is_artifact else 'set'} it, or make it optional: {{{name}?}}"
    return TemplateKeyError(f"{what}, at {_place(template, piece)}{hint}; {way_out}")


def _place(template: str, piece: Placeholder) -> str:
    ((line, column),) = lines_and_columns(template, [piece.start])
    return f"line {line}, column {column} of the template"


def _artifact_text(part: types.Part, name: str) -> str:
    """Return the text of *part*, or its type and size or its place, never its bytes."""
    if part.text is not None:
        return part.text
    if part.inline_data is not None:
        data = part.inline_data.data or b""
        kind = (part.inline_data.mime_type or _BYTES).split(";", 1)[0].strip().lower()
        # As in ADK, the filename shows the type of bytes without one.
        named = kind == _BYTES and name.lower().endswith(_TEXT_ENDINGS)
        if kind.startswith("text/") or kind in _TEXT_TYPES or named:
            return data.decode(errors="replace")
        return f"[artifact {name}: {kind}, {len(data)} bytes]"
    if part.file_data is not None:
        return f"[artifact {name}: {part.file_data.mime_type or 'a file'} at {part.file_data.file_uri}]"
    return f"[artifact {name}]"
