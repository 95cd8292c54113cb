"""Declare the options of stores and services, and refuse those that a call would not use.

The signature of what makes a store or a service is the only list of its options: the check here and the
table of docs/reference/options.md read it.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any, Literal, TypedDict, cast, get_args

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.settings import ArtifactLimits, MemoryLimits, SessionLimits
from gcp_adk_store.settings.envelope import KmsEnvelope
from gcp_adk_store.settings.names import require_known


class _OptionsOfBoth(TypedDict, total=False):
    """Options of a session service that a store has by the same name."""

    on_conflict: Literal["raise", "merge"]
    """What an append does when another writer was first: ``raise`` (default) raises SessionConflictError;
    ``merge`` stores the event after the others', and the caller's session learns them."""
    on_missing_payload: Literal["raise", "placeholder"]
    """What reading an event does when large content of it is gone or damaged: ``raise`` (default) raises
    PayloadMissingError; ``placeholder`` puts a text in its place that names it, and logs a warning. A state
    value that is gone is always an error."""
    durability: Literal["event", "turn"]
    """When an append returns: ``event`` (default) once its event is stored; ``turn`` once the order of the
    event is certain, except for the last event of a turn (ADK's final response), which waits until all before
    it are stored. A process that is killed can lose the end of a turn that runs, never an end of a turn that
    was acknowledged; what is stored is always the beginning of what was appended."""
    history: Literal["full", "since_compaction"]
    """Which events ``get_session`` returns: ``full`` (default) all; ``since_compaction`` those that ADK needs
    once summaries of its event compaction cover the others. ``HistoryConfig`` asks for either in one call."""
    default_ttl_seconds: float | None
    """*ttl_seconds* of sessions that are made without one, such as those that ADK's servers make; ``None``
    (default) keeps them forever."""
    redactors: Sequence[Callable[[Sequence[str]], Any]]
    """Functions that change the texts of events and state before they are stored, in this order: each gets
    them in a list, and returns as many; a function, which runs in a thread, or a coroutine function. If one
    fails, nothing is stored. docs/erasure.md says what they see."""
    encryption: KmsEnvelope | None
    """Encrypts content in the process, with a key for each user; ``None`` (default) stores it as it is."""


class SessionOptions(_OptionsOfBoth, total=False):
    """Options of every session service, on every backend."""

    limits: SessionLimits | None
    """Sizes and deadlines of sessions."""


class ServiceOptions(TypedDict, total=False):
    """Options of a store's memories and tasks: all that a store of given services has."""

    memory_limits: MemoryLimits | None
    """Sizes and deadlines of memories."""
    memory_ttl_seconds: float | None
    """Seconds after its event, or its addition, at which a memory ends; ``None`` (default) keeps memories."""
    embedder: Any
    """Makes vectors of memories and queries, so that searches find other words of the same meaning, too: a
    ``GenaiEmbedder``, a ``FunctionEmbedder``, or another object with their attributes; ``None`` (default)
    ranks by words alone."""
    index_on_append: bool
    """Whether what the session service appends becomes a memory of its user, when an agent
    has answered and beside that append."""
    extract: Callable[[Sequence[Any]], Any] | None
    """With *index_on_append*: returns ADK's memory entries to keep of a turn's events, instead of the events
    themselves; a function or a coroutine function. It runs after the append, and may call a model."""
    task_ttl_seconds: float | None
    """Seconds after its last save at which an A2A task ends; ``None`` (default) keeps tasks forever."""
    task_owner_resolver: Callable[[Any], str] | None
    """Returns the owner of a call of ``a2a-sdk`` from its context; ``None`` (default) takes the SDK's, by the
    name of the call's user."""


class StoreOptions(_OptionsOfBoth, ServiceOptions, total=False):
    """Options of every store that makes its services: those of sessions, of artifacts, and of the others."""

    session_limits: SessionLimits | None
    """Sizes and deadlines of sessions and tasks."""
    artifact_limits: ArtifactLimits | None
    """Bounds of artifacts."""


@cache
def options_of(makes: Callable[..., object]) -> frozenset[str]:
    """Return the names of the arguments that *makes* takes, those of its ``Unpack[...]`` included."""
    names: set[str] = set()
    for parameter in inspect.signature(makes).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            for options in get_args(parameter.annotation):
                names |= options.__annotations__.keys()
        else:
            names.add(parameter.name)
    return frozenset(names)


def require_options(
    given: Iterable[str], makes: Callable[..., object], *others: Callable[..., object]
) -> None:
    """Check that *makes* takes all options that are *given*; *others* are other ways to make the same.

    Raises:
        InvalidInputError: it does not take one; the message says which way does, or suggests a similar name.
    """
    known = options_of(makes)
    for name in given:
        takers = [other.__qualname__ for other in others if name in options_of(other)]
        if name not in known and takers:
            raise InvalidInputError(
                f"{makes.__qualname__} does not take the option {name!r}; {', '.join(takers)} "
                f"{'takes' if len(takers) == 1 else 'take'} it"
            )
    require_known(given, known, of=makes.__qualname__)


def of_sessions(options: StoreOptions) -> SessionOptions:
    """Return those of a store's options that its session service has, by the names there."""
    given: dict[str, Any] = {"limits": options.get("session_limits"), **options}
    return cast(
        SessionOptions, {name: given[name] for name in given if name in SessionOptions.__annotations__}
    )


def of_services(options: StoreOptions) -> ServiceOptions:
    """Return those of a store's options that concern neither its sessions nor its artifacts."""
    given: dict[str, Any] = {**options}
    return cast(
        ServiceOptions, {name: given[name] for name in given if name in ServiceOptions.__annotations__}
    )
