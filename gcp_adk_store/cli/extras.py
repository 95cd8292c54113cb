"""Name the missing extra of a command."""

from collections.abc import Iterator
from contextlib import contextmanager

from gcp_adk_store.cli.failures import CannotLookError
from gcp_adk_store.imports import how_to_install

_PYDANTIC = (2, 11)


@contextmanager
def needs_ces() -> Iterator[None]:
    """Import the packages of the extra ``ces``.

    Raises:
        CannotLookError: one of them is missing or too old.
    """
    try:
        import pydantic  # noqa: PLC0415  # what is asked for here

        if tuple(int(part) for part in pydantic.VERSION.split(".")[:2]) < _PYDANTIC:
            raise CannotLookError(
                f"pydantic {pydantic.VERSION} is too old; upgrade it: {how_to_install('ces')}"
            )
        yield
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] == "gcp_adk_store":
            raise
        raise CannotLookError(
            f"the module {exc.name} is missing; this command needs an extra: {how_to_install('ces')}"
        ) from exc
