"""Gather the names that user code finds: classes, functions, globals, and the module that has them all."""

import importlib
import types
import typing
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from . import messages
from .context import CallbackContext, ToolContext
from .contract import RunSettings
from .host_calls import AsyncTools, ExternalResponse, HttpMethod, Requests, StatusError, Tools
from .scanning import TYPING_NAMES

Value = TypeVar("Value")

PUBLIC_MODULE: Final = "ces_public"
INTERNAL_MODULE: Final = "ces_internal"

_MESSAGES: Final = [
    each
    for each in vars(messages).values()
    if isinstance(each, type) and each.__module__ == messages.__name__
]
_OTHERS: Final = (
    *(AsyncTools, CallbackContext, ExternalResponse, HttpMethod),
    *(Requests, StatusError, ToolContext, Tools),
)
CLASSES: Final[dict[str, type]] = {each.__name__: each for each in (*_MESSAGES, *_OTHERS)}
for _class in CLASSES.values():
    _class.__module__ = INTERNAL_MODULE  # as their names and tracebacks show it on the platform


def runtime_names(
    session: CallbackContext, *, synchronous: Tools, asynchronous: Tools, requests: Requests
) -> dict[str, Any]:
    """Return the names of one run, also as the contents of two modules; ``context`` is *session*."""
    public = types.ModuleType(PUBLIC_MODULE)
    internal = types.ModuleType(INTERNAL_MODULE)
    names: dict[str, Any] = {
        **CLASSES,
        "context": session,
        "tools": synchronous,
        "async_tools": asynchronous,
        "ces_requests": requests,
        "requests": requests,
        "get_variable": session.get_variable,
        "set_variable": session.set_variable,
        "remove_variable": session.remove_variable,
        "importlib": importlib,
        PUBLIC_MODULE: public,
        INTERNAL_MODULE: internal,
    }
    for module in (public, internal):
        vars(module).update({name: value for name, value in names.items() if value is not module})
    return names


def module_globals(names: dict[str, Any], settings: RunSettings) -> dict[str, Any]:
    """Return those of *names* that are globals where *settings* hold, and names of typing beside them."""
    typed = {} if settings.strict_typing else {name: getattr(typing, name) for name in TYPING_NAMES}
    return {**typed, **names}


@contextmanager
def entries(target: MutableMapping[str, Value], added: Mapping[str, Value]) -> Iterator[None]:
    """Add entries to *target* for a block, and restore the previous ones after it."""
    before = {name: target[name] for name in added if name in target}
    target.update(added)
    try:
        yield
    finally:
        for name in added:
            target.pop(name, None)
        target.update(before)
