"""Ask for the SDK of A2A, which only the extra ``a2a`` brings."""

from collections.abc import Iterator
from contextlib import contextmanager

from gcp_adk_store.errors import InvalidInputError
from gcp_adk_store.imports import how_to_install


@contextmanager
def needs_a2a() -> Iterator[None]:
    """Import what needs ``a2a-sdk``.

    Raises:
        InvalidInputError: it is missing, or older than 1.3.
    """
    try:
        yield
    except ImportError as exc:
        if (exc.name or "").partition(".")[0] != "a2a":
            raise
        raise InvalidInputError(
            f"tasks need a2a-sdk 1.3 or newer ({exc.msg}); install the extra: {how_to_install('a2a')}"
        ) from exc
