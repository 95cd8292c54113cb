"""Refuse a name of an option that nothing reads, warn of such a variable, and suggest the nearest name."""

import difflib
import functools
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from gcp_adk_store.errors import InvalidInputError

T = TypeVar("T")
logger = logging.getLogger(__name__)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return the known name that *name* is most like, as a question, or else all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(name[:80], known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"the known ones are {', '.join(known)}"


def require_known(names: Iterable[str], known: Iterable[str], *, of: str) -> None:
    """Check that all *names* are among the *known* ones of an option.

    Raises:
        InvalidInputError: a name is unknown; the message suggests a similar known name.
    """
    known = frozenset(known)
    for name in names:
        if name not in known:
            raise InvalidInputError(f"{of}: unknown option {name[:80]!r}; {suggestion(name, known)}")


def fields_only(settings: type[T]) -> type[T]:
    """Let a dataclass of settings refuse unknown fields as every option is refused; a decorator over it."""
    make = settings.__init__

    @functools.wraps(make)
    def init(self: T, *args: Any, **given: Any) -> None:
        require_known(given, settings.__dataclass_fields__, of=settings.__name__)  # type: ignore[attr-defined]
        make(self, *args, **given)

    settings.__init__ = init  # type: ignore[assignment]
    return settings


PREFIX: Final = "ADK_STORE_"
"""Begins the name of every variable of this library."""

VARIABLES: Final = frozenset(
    {
        "ADK_STORE_ACCEPT_PLAINTEXT",
        "ADK_STORE_BUCKET",
        "ADK_STORE_CACHE",
        "ADK_STORE_CES_ENVIRONMENT",
        "ADK_STORE_CREDENTIALS_FILE",
        "ADK_STORE_DATABASE",
        "ADK_STORE_ENCRYPTION_KEY",
        "ADK_STORE_ENCRYPT_ARTIFACTS",
        "ADK_STORE_FIRESTORE_EMULATOR_JAR",
        "ADK_STORE_IMPERSONATE",
        "ADK_STORE_KEYS_DATABASE",
        "ADK_STORE_LOCAL",
        "ADK_STORE_PREFIX",
        "ADK_STORE_PROJECT",
        "ADK_STORE_QUOTA_PROJECT",
        "ADK_STORE_TELEMETRY_IDS",
    }
)
"""Variables that the library and its command read."""

OF_THE_PROJECT: Final = frozenset({"ADK_STORE_REPOSITORY", "ADK_STORE_VENV"})
"""Variables that only a clone of the project reads, to set itself up and to build."""

_warned: Final[set[str]] = set()


def warn_of_unknown(env: Mapping[str, str]) -> None:
    """Log each variable of *env* that has the library's prefix and that nothing reads, once in a process."""
    for name in sorted(env.keys() - VARIABLES - OF_THE_PROJECT - _warned):
        if name.startswith(PREFIX):
            _warned.add(name)
            logger.warning(
                "nothing reads the environment variable %.80r; %s", name, suggestion(name, VARIABLES)
            )
